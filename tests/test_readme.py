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


def test_its_table_has_rows_of_the_stored_figures():
    [there] = re.findall(
        r"<!-- rows of benchmarks/results/quality.json.*? -->\n(.*?)<!-- end -->", README, re.DOTALL
    )
    stored = table("quality", read_figures(ROOT / "benchmarks" / "results")["quality"])
    rows = there.splitlines()
    kept = [line for line in stored.splitlines() if line in rows]
    assert rows == kept, "rows are missing in the stored table, or in another order"
    assert {f"| `{name}`, as it comes" for name in bundled.BUNDLED} <= {
        row.split(" |")[0] for row in rows
    }
    assert any("BM25" in row for row in rows)
