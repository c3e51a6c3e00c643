"""The README: its Python runs, its table and its figures are the stored ones."""

import re
from pathlib import Path

from rejoinder.evaluation.results import read_figures, table
from rejoinder.models import bundled

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
[BLOCK] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
FRACTION = re.compile(r"\d[\d,]*\.\d+")


def test_its_python_prints_what_it_says(capsys):
    exec(BLOCK, {})
    assert capsys.readouterr().out.strip() == BLOCK.rpartition("# ")[2].strip()


def test_its_table_is_that_of_the_stored_figures():
    [there] = re.findall(r"<!-- made of benchmarks/results/quality.json.*? -->\n(.*?)<!-- end -->", README, re.DOTALL)
    assert there == table("quality", read_figures(ROOT / "benchmarks" / "results")["quality"])


def test_its_other_figures_are_stored_too():
    prose = re.sub(r"```.*?```|`[^`]*`|\]\(.*?\)", "", README, flags=re.DOTALL)
    versions = {"3.11", "2.0"}  # Python, the licence
    tables = (ROOT / "docs" / "results" / "tables.md").read_text(encoding="utf-8")
    assert set(FRACTION.findall(prose)) - versions <= set(FRACTION.findall(tables))
    [megabytes] = re.findall(r"(\d+) MB", prose)
    model = bundled.weights("convert-small").folder
    assert int(megabytes) == round(sum(path.stat().st_size for path in model.iterdir()) / 1e6)
