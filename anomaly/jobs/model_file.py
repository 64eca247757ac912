"""A forest as skops bytes and back: every type in them is checked before anything is built, and no pickle is read."""

import io
import zipfile
from typing import Any

from anomaly.errors import AnomalyError

MODEL = "model.skops"
TRUSTED = "sklearn.tree._tree.Tree"
"""The one type beyond skops' own that an isolation forest needs."""

MOST_UNPACKED = 512 << 20


class ModelRefused(AnomalyError):
    """A trained model that must not or cannot be used; the ticks go on without one."""


def dump(forest: Any) -> bytes:
    """A fitted forest as skops bytes."""
    import skops.io

    out: bytes = skops.io.dumps(forest)
    return out


def forest_from(body: bytes, width: int, version: str) -> Any:
    """The forest in skops bytes, for `width` features. Raises ModelRefused for anything else in them."""
    _bounded(body, version)
    import skops.io
    from sklearn.ensemble import IsolationForest
    from sklearn.tree import ExtraTreeRegressor

    try:
        foreign = sorted(set(skops.io.get_untrusted_types(data=body)) - {TRUSTED})
        if foreign:
            raise refused(f"{MODEL} of {version} holds types that a forest has no use for: {', '.join(foreign)}")
        forest = skops.io.loads(body, trusted=[TRUSTED])
    except ModelRefused:
        raise
    except Exception as error:
        raise refused(f"{MODEL} of {version} cannot be read: {type(error).__name__}") from error
    trees = getattr(forest, "estimators_", None)
    if (
        type(forest) is not IsolationForest
        or not isinstance(trees, list)
        or not trees
        or any(type(tree) is not ExtraTreeRegressor for tree in trees)
        or getattr(forest, "n_features_in_", None) != width
    ):
        raise refused(f"{MODEL} of {version} is no isolation forest of {width} features")
    return forest


def _bounded(body: bytes, version: str) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            unpacked = sum(item.file_size for item in archive.infolist())
    except (zipfile.BadZipFile, ValueError) as error:
        raise refused(f"{MODEL} of {version} is no skops file") from error
    if unpacked > MOST_UNPACKED:
        raise refused(f"{MODEL} of {version} would unpack to {unpacked >> 20} MiB")


def refused(what: str) -> ModelRefused:
    """The error for a model that cannot be used."""
    return ModelRefused(what, "train again (`anomaly train PIPELINE`)")
