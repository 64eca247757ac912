"""What drills there are, in words."""

import inspect
from dataclasses import dataclass

from anomaly.source.simulated.faults import KINDS
from anomaly.source.simulated.limits import DUE
from anomaly.source.simulated.noise import ABOUT, NOISE


@dataclass(frozen=True)
class About:
    """One drill. `limit_s` is None for noise."""

    name: str
    expect: str
    cause_family: str | None
    limit_s: int | None
    text: str


def about() -> list[About]:
    """Every drill, in the order in which they run."""
    faults = [
        About(name, DUE[name].expect, DUE[name].cause_family, DUE[name].limit_s, _said(kind.edit.__doc__))
        for name, kind in KINDS.items()
    ]
    return faults + [
        About(name, "nothing", None, None, ABOUT.get(name) or _said(edit.__doc__)) for name, edit in NOISE.items()
    ]


def _said(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").split("\n\n")[0].replace("\n", " ").rstrip(".")
