"""The README: its Python runs, its table is the stored one (its other figures: test_figures.py)."""

import re
from pathlib import Path

from rejoinder.encoders import bundled
from workshop.results import read_figures, table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
[BLOCK] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_its_python_prints_what_it_says(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(BLOCK, {})
    assert capsys.readouterr().out.strip() == BLOCK.rpartition("# ")[2].strip()


def test_its_table_is_that_of_the_stored_figures():
    [there] = re.findall(
        r"<!-- made of benchmarks/results/quality.json.*? -->\n(.*?)<!-- end -->", README, re.DOTALL
    )
    assert there == table("quality", read_figures(ROOT / "benchmarks" / "results")["quality"])


def test_the_model_has_the_size_that_it_says():
    [megabytes] = re.findall(r"\[(\d+) MB", README)
    model = bundled.weights("convert-small").folder
    assert int(megabytes) == round(sum(path.stat().st_size for path in model.iterdir()) / 1e6)
