"""What `benchmarks/quality.py` writes, on a few examples."""

import json
import sys


import quality
from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples


def test_every_system_has_its_row_and_every_run_its_curve(tmp_path, monkeypatch, capsys):
    examples = [
        Example(
            id=str(i), thread=str(i), source="", context=(f"What is {i}?",), response=f"It is {i}."
        )
        for i in range(100)
    ]
    write_examples(examples, tmp_path / "test-00000.parquet")
    lines = [{"step": 3, "loss": 1.0}, {"step": 3, "valid_recall@1": 0.25}]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    written = {}
    monkeypatch.setattr(quality, "TEXTS", 20)
    monkeypatch.setattr(quality, "write_result", written.__setitem__)
    systems = ["--system", "bm25", "--system", "convert-small"]
    monkeypatch.setattr(sys, "argv", ["quality.py", str(tmp_path), *systems])
    quality.main()
    rows = written["quality"]["rows"]
    assert list(rows) == ["bm25", "convert-small"]
    assert rows["bm25"]["recall"]["1"][0] > 90
    assert (rows["bm25"]["bytes"], rows["bm25"]["texts_per_second"]) == (None, None)
    assert rows["convert-small"]["bytes"] > 1e7
    assert rows["convert-small"]["texts_per_second"] > 0
    assert "convert-small" in capsys.readouterr().out
    assert quality.curve(tmp_path) == [{"steps": 3, "recall": 25.0}]
