"""What a model cuts of long messages is said once, and not at all where nothing is cut."""

import pytest

from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from tests.encoders.small import small_model

SAID = "longer than the 40 subwords that {} reads: the end is cut"


@pytest.mark.parametrize("long", [True, False])
def test_what_is_cut_is_counted_and_said_once(command, tmp_path, monkeypatch, long):
    monkeypatch.chdir(tmp_path)
    small_model(tmp_path / "model")
    texts = [f"reply number {number}" for number in range(7)]
    texts += [f"{'word ' * 60}{number}" for number in range(3 * long)]
    (tmp_path / "replies.txt").write_text("\n".join([*texts, texts[-1]]))
    write_examples([Example(("hello", text), text) for text in texts], tmp_path / "own.parquet")
    what = {
        ("index", "build", "model", "replies.txt", "-o", "idx"): "3 of the replies are",
        ("index", "add", "idx", "replies.txt"): "3 of the replies are",
        ("reply", "idx", "hello", texts[-1]): "1 of the messages is",
        (
            "evaluate",
            "model",
            "bm25",
            "--data",
            "own.parquet",
            "--candidates",
            5,
        ): "3 of the messages are",
    }
    for words, said in what.items():
        notes = [line for line in command(*words).err.splitlines() if "longer than" in line]
        assert notes == [f"{said} {SAID.format('model')}"] * long
