"""The benchmark of approximate search runs, and compares like with like."""

import pytest

from approximate import measure, show


def test_it_runs(tmp_path, capsys):
    pytest.importorskip("faiss")
    replies = [f"reply {i} about {i % 7} things" for i in range(200)]
    result = measure(tmp_path / "index", "convert-small", replies, [[f"question {i}"] for i in range(60)], 0.9)
    rows = {row["search"]: row for row in result["rows"]}
    assert list(rows) == ["exact", "approximate", "approximate, with texts", "FAISS"]
    assert rows["exact"]["recall"] == 1
    assert min(row["recall"] for row in rows.values()) > 0.8
    assert rows["approximate"]["recall"] == rows["approximate, with texts"]["recall"]
    assert (result["replies_there"], result["queries"]) == (200, 30)
    show(result)
    assert "recall@30" in capsys.readouterr().out
