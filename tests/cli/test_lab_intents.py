"""`rejoinder lab grid` and `few-shot`, from the command line to the exit code."""

import pytest

from rejoinder.intents import heads
from rejoinder.lab import grid
from tests.cli.test_intents import write
from tests.encoders.small import small_model
from tests.intents.toy import toy_data
from tests.training.transformers import write_checkpoint


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intents")
    small_model(folder / "model")
    write(toy_data(10), folder / "train.csv")
    write(toy_data(10, seed=1), folder / "test.csv")
    return folder


def test_few_shot(command, place):
    arguments = (
        "lab",
        "few-shot",
        place / "model",
        place / "train.csv",
        "--test",
        place / "test.csv",
        "--seeds",
        2,
    )
    rows = command(*arguments, "--shots", 2, "--shots", "all", "--json").json["rows"]
    assert [(row["shots"], row["trainings"]) for row in rows] == [(2, 2), (None, 1)]
    assert "Training: 3 of 3 classifiers" in command(*arguments, "--shots", 2, "--shots", "all").err
    assert command(*arguments, "--shots", 2).out.startswith("| shots")


def test_sizes_that_an_intent_has_not_are_refused(command, refused, place, tmp_path):
    uneven = write(toy_data(12), tmp_path / "uneven.csv")
    rows = uneven.read_text().splitlines()
    uneven.write_text("\n".join(rows[:1] + rows[3:]) + "\n")  # 10 texts of the first intent
    words = ("lab", "few-shot", place / "model", uneven, "--test", place / "test.csv", "--seeds", 2)
    refused(*words, "--shots", 2, "--shots", 11, said="--shots 11: 11 texts of each intent cannot be drawn: 1 of"
            " 4 intents have fewer, card_lost (10); draw 10 or fewer, take all texts, or add some")  # fmt: skip
    named = "4 of 4 intents have fewer, card_lost (10), exchange_rate (12), top_up (12) and 1 more; draw 10 or fewer"
    refused(*words, "--shots", 50, said=named)
    ended = command(*words, "--json")  # the default sizes are those that there are
    assert [row["shots"] for row in ended.json["rows"]] == [5, 10, None]
    assert "no row 30: 30 texts of each intent cannot be drawn" in ended.err
    assert [row["shots"] for row in command(*words, "--shots", 10, "--json").json["rows"]] == [10]


def test_the_grid(command, place, tmp_path, monkeypatch):
    small = [
        heads.FeedForward(epochs=2, hidden_size=8),
        heads.FeedForward(epochs=2, hidden_layers=0),
    ]
    monkeypatch.setattr(grid, "paper_grid", lambda: iter(small))
    found = command(
        "lab", "grid", place / "model", place / "train.csv", "-o", tmp_path / "grid", "--json"
    ).json
    assert len(found["rows"]) == 2
    assert {path.name for path in (tmp_path / "grid").iterdir()} == {
        "grid.jsonl",
        "grid.md",
        "classifier",
    }
    assert command("intents", "predict", tmp_path / "grid" / "classifier", "lost card")[0] == 0


def test_a_size_that_is_no_number_is_refused(refused, place):
    words = ("lab", "few-shot", place / "model", place / "train.csv", "--shots", "some")
    refused(*words, said="a number of 1 or more, or all")


def test_a_bert_is_fine_tuned_with_a_classifier(command, refused, place, tmp_path):
    """On parts as `intents split` cuts them, by the checkpoint's own folder."""
    pytest.importorskip("transformers")
    start = write_checkpoint(tmp_path / "bert")
    parts = tmp_path / "parts"
    assert command("intents", "split", place / "train.csv", "-o", parts).code == 0
    words = ("lab", "bert", start, parts, "-o", tmp_path / "made")
    fast = ("--set", "epochs=3", "--set", "learning_rate=0.01", "--set", "batch_size=8")
    found = command(*words, *fast, "--json").json
    assert (found["texts"], found["intents"]) == (4, 4)
    assert 1 <= found["epoch"] <= 3
    assert found["valid_accuracy"] is not None
    from transformers import AutoModelForSequenceClassification

    made = AutoModelForSequenceClassification.from_pretrained(tmp_path / "made")
    assert set(made.config.id2label.values()) == {name for (name,) in toy_data(10).labels}
    again = command(*words, *fast, "--overwrite", "--json").json
    assert again["accuracy"] == found["accuracy"]
    assert refused(*words, *fast, said="--overwrite")
    other = write(toy_data(3), tmp_path / "other.csv")
    other.write_text(other.read_text() + "a new text,new\n")
    refused(*words, "--overwrite", "--test", other, said="no training text has the intent 'new'")


def test_a_bert_learns_what_its_texts_say(tmp_path):
    """With words that tell intents apart, and a rate for so small a network."""
    pytest.importorskip("transformers")
    from rejoinder.intents.data import IntentData
    from rejoinder.lab.bert_intents import BertSettings, fine_tune_bert

    texts = [f"{word} {n}" for n in ("a", "b", "c", "d") for word in ("card", "weather", "music")]
    data = IntentData(tuple(texts), tuple((text.split()[0],) for text in texts))
    start = write_checkpoint(tmp_path / "bert")
    settings = BertSettings(epochs=40, batch_size=4, learning_rate=0.01)
    found = fine_tune_bert(str(start), data, data, data, tmp_path / "made", settings, device="cpu")
    assert found.accuracy.value > 0.9
    assert found.valid_accuracy == found.accuracy.value, "the best epoch's weights are kept"
