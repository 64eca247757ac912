"""Trained models on disk: `models/<model>/<version>/{model.skops, manifest.json, card.md}` in the state directory.

A version is written aside and renamed, then `current.json` is made to name it, with the hash of its manifest, which
holds the hash of the model. Reading checks that chain, the version of scikit-learn and every type in the file before
anything is built; what does not fit is refused with a reason, and the ticks go on without a model. Never a pickle.
"""

import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from anomaly.clock import Ms, format_time
from anomaly.detect.forest import Calibration, NodeForest
from anomaly.errors import StoreError
from anomaly.features.cube import FEATURES, signals_of
from anomaly.jobs.model_file import MODEL, ModelRefused, forest_from, refused
from anomaly.jobs.model_spec import NODE_FOREST
from anomaly.jobs.parts import MODELS
from anomaly.signals.catalogue import Catalogue
from anomaly.store.files import flush

FORMAT = 1
MOST_BYTES = 64 << 20
CURRENT, NOTE = "current.json", "lacking.json"
MANIFEST, CARD = "manifest.json", "card.md"
_VERSION = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}(?:-[0-9]{1,4})?")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Current(_Strict):
    version: str
    manifest_sha256: str


class Note(_Strict):
    lacking: Annotated[str, Field(max_length=1000)]
    share: Annotated[float, Field(ge=0, le=1)]


class Manifest(_Strict):
    """What a version was made of, and by what. Times are real, in milliseconds; the window is nominal."""

    format: Literal[1] = 1
    model: Literal["node-forest"] = "node-forest"
    version: Annotated[str, Field(pattern=_VERSION.pattern)]
    sklearn: str
    skops: str
    numpy: str
    features: tuple[str, ...]
    constant: tuple[str, ...]
    """Features that did not vary in the history and take no part."""
    window: Ms
    trained_from: Ms
    trained_through: Ms
    trained_at: Ms
    seed: int
    rows: int
    """Node windows learnt from."""
    held_out_rows: int
    left_out_rows: int
    maxima: int
    """Declustered maxima that the boundary was read from."""
    quantile: float
    calibrated: bool
    """Whether the held-out data expect at least ten exceedances; otherwise the boundary is a prior."""
    usual: float
    boundary: float
    effect: float
    """The boundary's floor, by effect size."""
    centre: tuple[float, ...]
    spread: tuple[float, ...]
    sha256: str
    """Of model.skops."""
    spec_sha256: str
    catalogue_sha256: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model in use, or why there is none. `trouble` is empty unless something is wrong."""

    model: NodeForest | None = None
    trouble: str = ""
    lacking: str = ""
    """What is missing for a first model, as the last training found it."""
    share: float | None = None
    """How much of what is needed there is."""
    stamp: tuple[tuple[int, int] | None, ...] = ()
    """Of the files as they were read: another one means that there is something new."""

    @property
    def words(self) -> str:
        if self.model is not None:
            return f"{NODE_FOREST} {self.model.version}, learnt up to {format_time(self.model.trained_through)}"
        return f"{NODE_FOREST} is not used: {self.trouble}" if self.trouble else self.lacking or "no model yet"

    @property
    def state(self) -> str:
        """One word for coverage."""
        return "in_use" if self.model is not None else "degraded" if self.trouble else "no_model"


def catalogue_digest(catalogue: Catalogue, features: tuple[str, ...]) -> str:
    """A hash of how the signals behind the features are asked for and compared."""
    found = [repr(catalogue.get(name)) for name in (*signals_of(features), "gpu_util")]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def folder_of(state_dir: Path) -> Path:
    """Where the versions of the model lie."""
    return state_dir / MODELS / NODE_FOREST


def save(folder: Path, model: bytes, manifest: Manifest, card: str, keep: int) -> Path:
    """Write a version, make it the current one, and remove all but the newest `keep`. Its directory.

    Raises StoreError when the state directory cannot be written.
    """
    with _writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in folder.glob(".*.aside"):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
        aside = folder / f".{uuid.uuid4().hex[:8]}.aside"
        aside.mkdir(mode=0o700)
        text = manifest.model_dump_json(indent=2).encode() + b"\n"
        for name, body in ((MODEL, model), (MANIFEST, text), (CARD, card.encode())):
            (aside / name).write_bytes(body)
            flush(aside / name)
        final = folder / manifest.version
        aside.replace(final)
        _replace(folder / CURRENT, Current(version=manifest.version, manifest_sha256=hashlib.sha256(text).hexdigest()))
        for old in sorted(versions(folder))[:-keep]:
            if old != manifest.version:
                shutil.rmtree(folder / old, ignore_errors=True)
    return final


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"no model can be written under {folder}: {error.strerror or error}",
            "give the state directory space and write permission",
        ) from error


def _replace(final: Path, body: BaseModel) -> None:
    aside = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}.aside")
    aside.write_text(body.model_dump_json() + "\n", encoding="utf-8")
    flush(aside)
    aside.replace(final)


def versions(folder: Path) -> list[str]:
    """The versions that are there."""
    if not folder.is_dir():
        return []
    return [path.name for path in folder.iterdir() if path.is_dir() and _VERSION.fullmatch(path.name)]


def free_version(folder: Path, through: Ms, digest: str) -> str:
    """A name of a version that is not there yet: when its history ends, and a hash of what it was made by."""
    base = f"{format_time(through - through % 1000).replace('-', '').replace(':', '')}-{digest[:8]}"
    taken = set(versions(folder))
    return next(name for n in range(10_000) if (name := f"{base}-{n + 1}" if n else base) not in taken)


def refresh(folder: Path, catalogue: Catalogue, known: Loaded) -> Loaded:
    """What `load` would say; read again only when what training writes last has changed."""
    return known if _stamp(folder) == known.stamp else load(folder, catalogue)


def _stamp(folder: Path) -> tuple[tuple[int, int] | None, ...]:
    out: list[tuple[int, int] | None] = []
    for name in (CURRENT, NOTE):
        try:
            found = (folder / name).stat()
        except OSError:
            out.append(None)
        else:
            out.append((found.st_mtime_ns, found.st_size))
    return tuple(out)


def note(folder: Path, lacking: str, share: float) -> None:
    """Remember what a training lacked, for the ticks' coverage. Raises StoreError as `save`."""
    with _writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(folder / NOTE, Note(lacking=lacking, share=share))


def load(folder: Path, catalogue: Catalogue) -> Loaded:
    """The current model under `folder`; never raises for what is on the disk: trouble is said in the answer."""
    stamp = _stamp(folder)
    if stamp[0] is None:
        return _noted(folder, stamp)
    try:
        return Loaded(_read(folder, catalogue), share=1.0, stamp=stamp)
    except ModelRefused as error:
        return Loaded(None, str(error), stamp=stamp)


def _noted(folder: Path, stamp: tuple[tuple[int, int] | None, ...]) -> Loaded:
    if stamp[1] is None:
        return Loaded(stamp=stamp)
    try:
        found = Note.model_validate_json(_bytes(folder / NOTE, 1 << 16))
    except (ValidationError, ModelRefused):
        return Loaded(stamp=stamp)
    return Loaded(lacking=found.lacking, share=found.share, stamp=stamp)


def read_manifest(folder: Path) -> Manifest:
    """The current version's manifest, its hash checked. Raises ModelRefused."""
    try:
        current = Current.model_validate_json(_bytes(folder / CURRENT, 1 << 16))
    except ValidationError:
        raise refused(f"{folder / CURRENT} is damaged") from None
    if not _VERSION.fullmatch(current.version):
        raise refused(f"{folder / CURRENT} names no version")
    text = _bytes(folder / current.version / MANIFEST, 1 << 20)
    if hashlib.sha256(text).hexdigest() != current.manifest_sha256:
        raise refused(f"the manifest of {current.version} is not the one that was written")
    form = _format_of(text)
    if form != FORMAT:
        raise refused(f"the manifest of {current.version} has format {form}, this program knows {FORMAT}")
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise refused(f"the manifest of {current.version} is damaged at {where or 'its beginning'}") from None
    if manifest.version != current.version:
        raise refused(f"the manifest of {current.version} is that of {manifest.version}")
    return manifest


def _read(folder: Path, catalogue: Catalogue) -> NodeForest:
    manifest = read_manifest(folder)
    have = installed("scikit-learn")
    if manifest.sklearn != have:
        raise refused(f"{manifest.version} was trained with scikit-learn {manifest.sklearn}, this is {have}")
    strangers = [name for name in manifest.features if name not in FEATURES]
    if strangers or list(manifest.features) != sorted(set(manifest.features)):
        raise refused(f"{manifest.version} has features that this program does not know: {', '.join(strangers)}")
    if manifest.catalogue_sha256 != catalogue_digest(catalogue, manifest.features):
        raise refused(f"signals have been changed since {manifest.version} was trained")
    body = _bytes(folder / manifest.version / MODEL, MOST_BYTES)
    if hashlib.sha256(body).hexdigest() != manifest.sha256:
        raise refused(f"{MODEL} of {manifest.version} is not the one that was trained")
    width = len(manifest.features)
    centre, spread = np.array(manifest.centre), np.array(manifest.spread)
    if len(centre) != width or len(spread) != width or not (spread > 0).all() or manifest.boundary <= manifest.usual:
        raise refused(f"the manifest of {manifest.version} does not fit its features")
    return NodeForest(
        manifest.version,
        manifest.features,
        manifest.window,
        manifest.trained_through,
        centre,
        spread,
        Calibration(manifest.usual, manifest.boundary),
        forest_from(body, width, manifest.version),
    )


def _format_of(text: bytes) -> object:
    try:
        body = json.loads(text)
    except ValueError:
        return "none"
    return body.get("format") if isinstance(body, dict) else "none"


def _bytes(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as stream:
            body = stream.read(most + 1)
    except OSError as error:
        raise refused(f"{path} cannot be read: {error.strerror or error}") from error
    if len(body) > most:
        raise refused(f"{path} is larger than {most >> 20} MiB")
    return body
