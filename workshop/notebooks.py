"""Run the notebooks and keep what they show: text, tables, pictures.

No counts, times or names of machines. python -m workshop.notebooks runs all of notebooks/, each in
a folder that is removed afterwards.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
SHOWN = ("image/png", "text/html", "text/plain")  # the best form of an output stays, in this order


def executed(path: Path, folder: str | Path) -> Any:
    """Return the notebook with its new outputs, after running it in `folder`.

    A cell that fails raises.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [kept(each) for each in cell.outputs if each.get("name") != "stderr"]
    notebook.metadata.pop("language_info", None)
    return notebook


def kept(output: Any) -> Any:
    """Return an output in one form, without its count; text loses the colours of a terminal."""
    if output.output_type == "stream":
        output.text = re.sub(r"\x1b\[[\d;]*m", "", output.text)
        return output
    form = next(form for form in SHOWN if form in output.data)
    return nbformat.v4.new_output("display_data", {form: output.data[form]})


def main() -> None:
    """Run the notebooks and write them."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, folder), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
