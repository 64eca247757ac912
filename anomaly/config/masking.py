"""A spec as it may be shown to anybody: secrets as `<secret>`, as Prometheus and Alertmanager print theirs."""

import re
from typing import Any

from pydantic import BaseModel, SecretStr

from anomaly.config.http import HttpConfig
from anomaly.config.types import Masked

MASK = "<secret>"

_TELLING = re.compile(r"token|secret|passw|auth|key|credential", re.IGNORECASE)


def masked(model: BaseModel) -> dict[str, Any]:
    """Plain data, durations as in the file, entries without a value left out."""
    out: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    for name, field in type(model).model_fields.items():
        if name in out:
            hide = any(isinstance(mark, Masked) for mark in field.metadata)
            out[name] = MASK if hide else _shown(getattr(model, name), out[name], name)
    return dict(sorted(out.items(), key=lambda entry: entry[0] in HttpConfig.model_fields))


def _shown(value: Any, dumped: Any, name: str) -> Any:
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, BaseModel):
        return masked(value)
    if isinstance(value, tuple | list):
        return [_shown(item, shape, name) for item, shape in zip(value, dumped, strict=True)]
    if isinstance(value, dict) and name == "params":
        return {key: MASK if _TELLING.search(key) else text for key, text in dumped.items()}
    if isinstance(value, dict):
        return {key: _shown(item, dumped[key], name) for key, item in value.items()}
    return dumped
