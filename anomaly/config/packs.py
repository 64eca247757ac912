"""Which signal packs exist."""

from importlib import resources


def pack_names() -> tuple[str, ...]:
    """Names of the packs that ship with the package, sorted: its YAML files, without the ending."""
    folder = resources.files("anomaly").joinpath("signals", "packs")
    if not folder.is_dir():
        return ()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))
