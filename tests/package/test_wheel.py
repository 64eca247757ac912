"""The wheel: what is in it, and that it is all one needs in an empty directory."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from anomaly import __version__

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]

ROOT = Path(__file__).parents[2]
STARTER = "anomaly/_starter/"

Ran = subprocess.CompletedProcess[str]


def run(*words: str | Path, cwd: Path) -> Ran:
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from a copy that holds what training and notebooks leave behind."""
    source = tmp_path_factory.mktemp("source")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT)
    assert listed.returncode == 0, listed.stderr
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith("tests/") and (ROOT / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    for name in ("models/node-forest/20261130T000000Z-0123abcd/model.skops", "notebooks/.ipynb_checkpoints/a.ipynb"):
        (source / name).parent.mkdir(parents=True)
        (source / name).write_bytes(b"left behind")
    (source / "var").mkdir()
    (source / "var/anomaly.duckdb").write_bytes(b"left behind")
    out = tmp_path_factory.mktemp("built")
    done = run(sys.executable, "-m", "hatchling", "build", "-d", out, cwd=source)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel, and the libraries of this one but not its checkout."""
    place = tmp_path_factory.mktemp("venv")
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index")
    done = run(*pip, wheel, cwd=place)
    assert done.returncode == 0, done.stderr
    site = place / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    # A path named in a .pth is searched, but the .pth files in it (our editable install) are not read.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-I", "-c", "import anomaly; print(anomaly.__file__)", cwd=place)
    assert where.stdout.startswith(str(site)), where.stdout + where.stderr
    return place / "bin"


@pytest.fixture
def installed(environment: Path) -> Callable[..., Ran]:
    """Runs its `anomaly`."""

    def anomaly(*words: str | Path, cwd: Path) -> Ran:
        return run(environment / "anomaly", *words, cwd=cwd)

    return anomaly


def test_the_wheel_holds_the_program_and_the_starter_files_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names} == {"anomaly", f"anomaly-{__version__}.dist-info"}
    starter = {name.removeprefix(STARTER) for name in names if name.startswith(STARTER)}
    expected = {
        str(path.relative_to(ROOT))
        for folder, patterns in {
            "pipelines": ("*.yaml", "*.yml", "*.csv", "*.md"),
            "models": ("*.yaml", "*.md"),
            "notebooks": ("*.ipynb", "*.md"),
        }.items()
        for pattern in patterns
        for path in (ROOT / folder).glob(pattern)
    }
    assert starter == expected
    code = {name for name in names if name.startswith("anomaly/") and not name.startswith(STARTER)}
    assert {Path(name).suffix for name in code} <= {".py", ".yaml", ".html", ".css", ".js", ".svg", ".typed"}
    assert {path.name for path in (ROOT / "anomaly/signals/packs").glob("*.yaml")} <= {Path(n).name for n in code}


def test_no_notebook_in_it_has_outputs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if name.endswith(".ipynb"):
                cells = json.loads(packed.read(name))["cells"]
                assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == [], name


def test_the_sdist_holds_nothing_that_was_left_behind(built: Path) -> None:
    (found,) = built.glob("*.tar.gz")
    with tarfile.open(found) as packed:
        names = [name.partition("/")[2] for name in packed.getnames()]
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "anomaly/cli/main.py"} <= set(names)
    left = ("var/", ".venv/", "models/node-forest/", "notebooks/.ipynb_checkpoints")
    assert [name for name in names if name.startswith(left)] == []


def test_the_tests_of_whole_rooms_pass_on_it(environment: Path, tmp_path: Path) -> None:
    """The tests without the checkout's modules: what they import is what was installed, data files included."""
    for name in ("tests", "pipelines", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    where = run(environment / "python", "-c", "import anomaly; print(anomaly.__file__)", cwd=tmp_path)
    assert where.stdout.startswith(str(environment.parent)), where.stdout + where.stderr
    rooms = ("config", "signals", "denoise", "truth", "cli/test_help.py")
    chosen = [f"tests/{room}" for room in rooms]
    done = run(environment / "python", "-m", "pytest", "-q", "-n0", *chosen, "-k", "not fuzz", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 300, done.stdout[-300:]


def test_in_an_empty_directory(installed: Callable[..., Ran], tmp_path: Path) -> None:
    """Version, starter files, a check of them, the demo: with the wheel only."""
    version = installed("--version", cwd=tmp_path)
    assert (version.stdout, version.stderr) == (f"anomaly {__version__}\n", "")
    assert list(tmp_path.iterdir()) == []

    begun = installed("init", "mine", cwd=tmp_path)
    assert begun.returncode == 0, begun.stderr
    checked = installed("check", "mine/pipelines/gpu-cluster.yaml", cwd=tmp_path)
    assert (checked.returncode, "is valid" in checked.stderr) == (0, True), checked.stderr
    inside = installed("init", ".", cwd=tmp_path / "mine")
    assert (inside.returncode, "Traceback" in inside.stderr) == (2, False)

    shown = installed("demo", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "What was found in a simulated cluster" in shown.stdout
    assert (tmp_path / "var/demo/published/manifest.json").is_file()
    listed = installed("incidents", "--state", "var/demo", cwd=tmp_path)
    assert (listed.returncode, "page" in listed.stdout) == (0, True), listed.stderr
