"""`anomaly init`: a starter pipeline, model spec and notebooks to begin from."""

from importlib.resources import files
from pathlib import Path

import click

from anomaly.cli import options
from anomaly.errors import ConfigError, UsageError

FOLDERS: dict[str, tuple[str, ...]] = {
    "pipelines": ("gpu-cluster.yaml", "topology.csv", "alertmanager.yml", "README.md"),
    "models": ("*.yaml", "README.md"),
    "notebooks": ("*.ipynb", "README.md"),
}
"""Folder → which of its files are written, as patterns."""

SHOWN = 4
"""So many files that are in the way are named, not all."""


@click.command("init")
@click.argument("directory", metavar="DIR", type=options.PATH)
def command(directory: Path) -> None:
    """Write a starter pipeline, model spec and notebooks into DIR, which is made if need be.

    Nothing that is there already is overwritten: where one file would be, none is written.
    """
    _write(starter_files(), directory)
    click.echo(_next(directory))


def starter_files() -> dict[Path, Path]:
    """Path below DIR → the file it is a copy of. Raises ConfigError when the installation lacks them."""
    root = _starter()
    found = {
        path.relative_to(root): path
        for folder, patterns in FOLDERS.items()
        for pattern in patterns
        for path in sorted((root / folder).glob(pattern))
    }
    if Path("pipelines/gpu-cluster.yaml") not in found:
        raise ConfigError("this installation lacks the starter files", "install anomaly again")
    return found


def _starter() -> Path:
    """Where the starter files are: beside the modules as installed, or in the checkout that this is run from."""
    package = Path(str(files("anomaly")))
    installed = package / "_starter"
    return installed if installed.is_dir() else package.parent


def _write(wanted: dict[Path, Path], directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file", "give a directory, new or existing")
    # A link that leads nowhere is in the way too: writing would follow it.
    there = [str(path) for path in wanted if (directory / path).exists() or (directory / path).is_symlink()]
    if there:
        more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
        raise UsageError(
            f"{directory} holds {', '.join(there[:SHOWN])}{more} already, and nothing is overwritten",
            "give another directory, or move them aside",
        )
    for path, original in wanted.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as new:
            new.write(original.read_bytes())


def _next(directory: Path) -> str:
    go = "" if directory.resolve() == Path.cwd() else f"cd {directory} && "
    return f"""\
Put the address of your Prometheus into {directory / "pipelines/gpu-cluster.yaml"}, then:
  {go}anomaly check pipelines/gpu-cluster.yaml --against     what your Prometheus has, signal by signal
  anomaly backtest pipelines/gpu-cluster.yaml --from TIME --to TIME     what it would have said of the past
  anomaly run pipelines/gpu-cluster.yaml     the service"""
