"""`rejoinder intents`, from the command line to the exit code."""

import csv
import json
import sys

import pytest

from rejoinder.cli import intents
from rejoinder.intents.data import IntentData
from tests.encoders.small import small_model
from tests.intents.toy import multi_label_data, toy_data

VERB = ["intents"]


def write(data, path):
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        rows.writerows(
            (text, "|".join(names)) for text, names in zip(data.texts, data.labels, strict=True)
        )
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intents")
    small_model(folder / "model")
    outside = ("play some loud jazz", "who won the match")
    write(toy_data(10), folder / "train.csv")
    write(toy_data(10, seed=1), folder / "test.csv")
    for name, seed in (("train", 0), ("test", 1)):
        data = toy_data(10, seed=seed)
        write(
            IntentData(data.texts + outside, data.labels + (("oos",),) * 2),
            folder / f"{name}-oos.csv",
        )
    write(multi_label_data(), folder / "multi-label.csv")
    return folder


def test_train_evaluate_predict(command, place, tmp_path, monkeypatch):
    result = command(
        "train", place / "model", place / "train.csv", "-o", tmp_path / "made", "--json"
    ).json
    assert (result["texts"], result["intents"]) == (40, 4)
    assert result["rejection"] is not None
    assert min(result["encoding_seconds"], result["training_seconds"]) > 0
    words = ("evaluate", tmp_path / "made", place / "test.csv", "--train", place / "train.csv")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ended = command(*words, "--report", tmp_path / "report", "--json")
    assert "no pictures in" in ended.err
    result = ended.json
    # the model has random weights; chance is 0.25
    assert result["evaluation"]["accuracy"]["value"] > 0.35
    assert 0 <= result["evaluation"]["refusal"]["in_scope_refused"] <= 1
    assert (tmp_path / "report" / "report.md").is_file()
    words = ("predict", tmp_path / "made", "--json")
    first, second = command(*words, "is it sunny and cold", "lost my card", "--top", 2).json[
        "predictions"
    ]
    assert first["labels"] in ([], [first["ranking"][0]["label"]])
    assert len(second["ranking"]) == 2
    rows = command(*words, stdin="lost card\n\nrain today\n").json["predictions"]
    assert [row["text"] for row in rows] == ["lost card", "rain today"]
    assert command(*words, stdin="").code == 2


def test_people_read_the_same(command, place, tmp_path):
    made = tmp_path / "made"
    out = command(
        "train", place / "model", place / "train-oos.csv", "-o", made, "--vectors", "both"
    ).out
    assert out.startswith("40 texts of 4 intents")
    assert "out of scope: " in out
    assert {"Accuracy", "AUROC"} <= set(
        command("evaluate", made, place / "test-oos.csv").out.split()
    )
    assert command("predict", made, "lost card").out.startswith("lost card\n    ")


def test_training_says_which_probability_is_refused():
    result = {"texts": 9, "intents": 3, "encoding_seconds": 0, "training_seconds": 0, "held_out_accuracy": None,
              "rejection": {"score": "probability", "threshold": 0.00101054}, "classifier": "made"}  # fmt: skip
    assert "\nout of scope: highest probability below 0.998989\n" in intents._train_text(result)


def test_fine_tuning(command, place, tmp_path):
    words = ("fine-tune", place / "model", place / "train.csv", "-o", tmp_path / "tuned")
    assert f"model: {tmp_path / 'tuned'}" in command(*words, "--set", "steps=2", "--shots", 3).out
    assert (
        command("train", tmp_path / "tuned", place / "train.csv", "-o", tmp_path / "made")[0] == 0
    )


def test_bad_input_is_one_line_and_leaves_nothing(refused, place, tmp_path):
    train = ("train", place / "model", place / "train.csv", "-o", tmp_path / "made")
    for arguments, said in (
        ((*train, "--preset", "best"), "best: give one of logistic, paper, original"),
        ((*train, "--set", "strength=-1"), "strength = -1 is not allowed"),
        ((*train, "--vectors", "x"), "allowed are r, h, both"),
        ((*train, "--with", "nothing"), "no model 'nothing'"),
        ((*train, "--multi-label", "--reject", 0.1), "--reject 0.1 has no effect with --multi-label"),
        (
            ("train", "minilm", place / "train.csv", "-o", tmp_path / "made", "--vectors", "both"),
            "vectors 'both' are of Rejoinder's models, and minilm has one kind",
        ),
        (
            ("fine-tune", place / "model", place / "train.csv", "-o", tmp_path / "made", "--shots", 50),
            "50 texts of each intent cannot be drawn: ",
        ),
        (
            ("fine-tune", "minilm", place / "train.csv", "-o", tmp_path / "made"),
            "fine-tuning takes a Rejoinder model: a model folder, a name such as bi-small",
        ),
        (("train", place / "model", place / "none.csv", "-o", tmp_path / "made"), "does not exist"),
        (("train", "nothing", place / "train.csv", "-o", tmp_path / "made"), "no model 'nothing'"),
        (
            ("train", place / "model", place / "train.csv", "-o", place / "model"),
            "not ours to replace",
        ),
        (("evaluate", place / "model", place / "test.csv"), "is not a classifier"),
        (("evaluate", tmp_path, place / "test.csv"), "is not a classifier"),
        (("predict", tmp_path, "x"), "is not a classifier"),
    ):
        refused(*arguments, said=said)
    assert not (tmp_path / "made").exists()


def test_without_texts_out_of_scope_everyday_messages_stand_for_them(tmp_path, answer):
    rows = [(f"{start} my {thing}", thing) for thing in ("card", "transfer", "pin")
            for start in ("where is", "I lost", "please change", "when do I get", "how do I use", "show me")]  # fmt: skip
    texts = tmp_path / "six.csv"
    texts.write_text("text,label\n" + "".join(f"{a},{b}\n" for a, b in rows), encoding="utf-8")
    made = answer("train", "convert-small", texts, "-o", tmp_path / "made")
    assert made["rejection"] is not None
    found = answer("predict", tmp_path / "made", "I love you", "sdkjfh kjsdf", "where is the pin of mine")
    assert [each["labels"] for each in found["predictions"]] == [[], [], ["pin"]]


def test_a_note_says_when_too_few_texts_choose_the_threshold(command, place, tmp_path):
    few = write(toy_data(1), tmp_path / "few.csv")
    words = ("train", place / "model", few, "-o", tmp_path / "made")
    ended = command(*words)
    assert "the threshold refuses 90% of everyday messages, but at most 5% of your texts. Give two or more different texts" in ended.err
    assert "distance above" in ended.out
    ended = command(*words, "--reject", 0.1, "--overwrite")
    assert "of everyday messages, but at most 5% of your texts; --reject 0.1 has no effect." in ended.err
    assert "too few" not in command("train", place / "model", place / "train.csv", "-o", tmp_path / "two").err


def test_a_note_says_when_the_labels_look_wrong(command, place, tmp_path):
    """Labels that say nothing of the texts: refusing everything would fit held-out texts best."""
    texts = toy_data(10).texts
    labels = tuple((f"intent {number % 20}",) for number in range(40))
    outside = ("play some loud jazz", "who won the match", "bake a soup", "tell a joke")
    rows = write(IntentData(texts + outside, labels + (("oos",),) * 4), tmp_path / "random.csv")
    ended = command("train", place / "model", rows, "-o", tmp_path / "made", "--json")
    assert ended.json["rejection_texts"] == 40
    assert ended.json["rejection_chosen_by"].endswith("the best threshold refuses most training texts")
    assert "would refuse more than 50% of your texts, so it is not used: the threshold refuses 90% of the texts out of scope" in ended.err
    assert "Check the labels: `rejoinder intents evaluate` with --train lists suspect ones" in ended.err
    assert "too few" not in ended.err


def test_small_data_is_split_into_parts_that_the_next_command_reads(command, refused, place, tmp_path):
    few = write(toy_data(1), tmp_path / "few.csv")
    ended = command("split", few, "-o", tmp_path / "few")
    assert "no valid.csv: 4 texts of 4 intents are too few for a share of 0.1" in ended.err
    assert {path.name for path in (tmp_path / "few").iterdir()} == {"parts.json", "train.csv"}
    small = write(toy_data(6), tmp_path / "small.csv")
    assert command("split", small, "-o", tmp_path / "small", "--json").json["valid"] == 2
    made = tmp_path / "made"
    for folder in ("few", "small"):
        assert command("train", place / "model", tmp_path / folder, "-o", made, "--overwrite").code == 0
    assert command("evaluate", made, tmp_path / "small").code == 0
    refused("evaluate", made, tmp_path / "few", said="has no part test")
    several = tmp_path / "several.jsonl"
    several.write_text('{"text": "a", "labels": ["x", "y"]}\n')
    refused("split", several, "-o", tmp_path / "x", said="`rejoinder intents train --multi-label` alone takes several")


def test_all_parts_of_a_folder_or_file_are_split(command, tmp_path):
    (tmp_path / "parts").mkdir()
    rows = {name: write(toy_data(6, seed=seed), tmp_path / "parts" / f"{name}.csv") for seed, name in enumerate(("train", "test"))}
    (tmp_path / "parts" / "valid.csv").write_text("text,label\n")
    content = {name: list(csv.reader(path.open()))[1:] for name, path in rows.items()}
    (tmp_path / "parts.json").write_text(json.dumps(content | {"oos_train": [["who won?", "oos"]]}))
    for number, (source, count) in enumerate((("parts", 48), ("parts.json", 49), ("parts/train.csv", 24))):
        ended = command("split", tmp_path / source, "-o", tmp_path / f"{number}", "--json")
        assert sum(ended.json[name] for name in ("train", "valid", "test")) == count
        assert ("parts train, test are read together" in ended.err) == (count > 24)
    one = tmp_path / "one"
    one.mkdir()
    (tmp_path / "parts.json").rename(one / "test.json")  # a part may be a file of parts
    assert command("split", one, "-o", tmp_path / "x", "--json").json["train"] > 0


@pytest.mark.parametrize("verb", ["train", "fine-tune"])
def test_exports_and_unknown_headers_are_read(command, place, tmp_path, verb):
    """LUIS, wit.ai, Rasa and Watson; a first row that may be a header is noted."""
    listed = [{"text": text, "intent": name} for text, (name,) in zip(toy_data(6).texts, toy_data(6).labels, strict=True)]
    examples = {}
    for row in listed:
        examples.setdefault(row["intent"], []).append({"text": row["text"]})
    for content in (
        {"luis_schema_version": "7.0.0", "intents": [{"name": "weather"}], "utterances": listed},
        {"utterances": listed},
        {"rasa_nlu_data": {"common_examples": listed}},
        {"name": "b", "intents": [{"intent": name, "examples": rows} for name, rows in examples.items()]},
    ):
        (tmp_path / "a.json").write_text(json.dumps(content))
        words = (verb, place / "model", tmp_path / "a.json", "-o", tmp_path / "made", "--overwrite")
        few = ("--set", "steps=2") if verb == "fine-tune" else ()
        assert command(*words, *few).code == 0
    (tmp_path / "a.csv").write_text("Frage,Absicht\n" + "".join(f"{row['text']},{row['intent']}\n" for row in listed))
    ended = command(verb, place / "model", tmp_path / "a.csv", "-o", tmp_path / "made", "--overwrite", *few)
    assert "read as a text, 'Frage', of the intent 'Absicht', which no other row has" in ended.err
