"""`time_scale`, applied at one place to every duration of a spec that is marked with `types.Scales`."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from anomaly.clock import Ms
from anomaly.config.types import Scales

Model = TypeVar("Model", bound=BaseModel)


def scaled_copy(model: Model, scale: Callable[[Ms], Ms]) -> Model:
    """A copy of `model` with every marked duration passed through `scale`, in nested sections too."""
    update: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if any(isinstance(mark, Scales) for mark in field.metadata):
            update[name] = scale(value)
        elif isinstance(value, BaseModel):
            update[name] = scaled_copy(value, scale)
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            update[name] = tuple(scaled_copy(item, scale) for item in value)
    return model.model_copy(update=update)
