"""The notebooks run from top to bottom, and what is stored in them is what they show; so are their progress bars."""

import re

import pytest

pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
pytest.importorskip("nbclient")
pytest.importorskip("sklearn")
pytest.importorskip("tensorboard")
import nbformat

from workshop.notebooks import FOLDER, executed

PATHS = sorted(FOLDER.glob("*.ipynb"))


def outputs_of(cell):
    """The outputs of a cell; a stream comes in any number of pieces, so its pieces are joined."""
    joined = []
    for output in cell.get("outputs", ()):
        if joined and "text" in output and "text" in joined[-1]:
            joined[-1] = {"text": joined[-1]["text"] + output["text"]}
        else:
            joined.append(output)
    return joined


def shown(cell):
    """What a code cell shows: text without its numbers, the heads of a table, a bar; that there is a picture."""
    for output in outputs_of(cell):
        ((form, value),) = output.get("data", {"text/plain": output.get("text")}).items()
        if form == "text/html":
            yield " ".join(
                re.findall(r"<caption>.*?<|<th>.*?<|.*<progress value=.1.0000.></progress>", value)
            )
        else:
            yield (
                form
                if form == "image/png"
                else " ".join(re.sub(r"-?\d[\d.,]*", "#", value).split())
            )


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_stored_in_it(path, tmp_path):
    stored, found = nbformat.read(path, as_version=4), executed(path, tmp_path)
    for number, (old, new) in enumerate(zip(stored.cells, found.cells, strict=True)):
        assert list(shown(old)) == list(shown(new)), (
            f"cell {number}; python -m workshop.notebooks stores it anew"
        )
    outputs = [each for cell in stored.cells for each in shown(cell)]
    assert outputs.count("image/png") >= 2
    # models, results and their like
    assert len([each for each in outputs if "<caption>" in each]) >= 2
    assert [each for each in outputs if "</progress>" in each]
    assert path.stat().st_size < 150_000
    assert not [cell for cell in stored.cells if cell.metadata or cell.get("execution_count")]
