"""Run a notebook in a kernel of this very interpreter: `python -m tests.notebooks.execute NOTEBOOK RESULT`.

A process of its own, because the Jupyter client leaves sockets to the garbage collector. No kernel is registered
anywhere. A cell's error ends it with a traceback that shows the cell.
"""

import json
import sys
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

CHART = "application/vnd.vegalite+json"
AS_SPECS = f"""
import altair
altair.renderers.register("spec", lambda spec, **_: {{"{CHART}": spec}})
_ = altair.renderers.enable("spec")
"""
"""Charts come out as specs rather than as pages of HTML."""


class Here(AsyncKernelManager):
    """Starts this interpreter, whatever kernels there are."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])


def main(path: Path, result: Path) -> None:
    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    notebook.cells.insert(0, new_code_cell(AS_SPECS))  # type: ignore[no-untyped-call]
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, km=Here(), timeout=120, resources=where).execute()
    result.write_text(json.dumps(notebook), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
