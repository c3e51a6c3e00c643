"""`rejoinder evaluate`, from the command line to the exit code."""

import json

import pytest

from rejoinder.cli.models import ENCODER_BLOCK
from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.encoders.words.keywords import BM25
from tests.evaluation.fakes import Rule, knows_even_ones, knows_it_all, number, numbered_examples

VERB = ["evaluate"]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "numbers"
    write_examples(numbered_examples(250, turns_per_thread=5), path / "test-0.parquet")
    write_examples(numbered_examples(60), path / "valid-0.parquet")
    return path


@pytest.fixture
def measured(answer):
    return lambda *words: answer(*words)["results"]


@pytest.fixture
def models(monkeypatch, tmp_path):
    """Two model folders, and the rankers that stand in for what would be loaded from them."""
    known = {
        str(tmp_path / "good"): Rule(knows_it_all),
        str(tmp_path / "half"): Rule(knows_even_ones),
    }
    for name in known:
        (tmp_path / name).mkdir()
    monkeypatch.setattr("rejoinder.encoders.open.load", lambda name, **_: known[name])
    return known


def test_one_json_object_with_a_result_for_each_model_and_data_set(
    command, folder, models, tmp_path
):
    write_examples(numbered_examples(30), tmp_path / "other.parquet")
    good, half = models
    data = ("--data", folder, "--data", tmp_path / "other.parquet")
    ended = command(good, half, "bm25", *data, "--candidates", 10, "--json")
    results = ended.json["results"]
    assert "Ranking" in ended.err
    sets = ((f"{folder} (test)", 250, "thread"), (str(tmp_path / "other.parquet"), 30, "example"))
    found = [(each["model"], each["data"], each["examples"], each["unit"]) for each in results]
    assert found == [(model, *each) for each in sets for model in (good, half, "bm25")]
    assert results[0]["recall"]["1"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert 0.4 < results[1]["recall"]["1"]["value"] < 0.6


def test_gains_above_several_models(command, measured, folder, models):
    good, half = models
    both = ("--above", "bm25", "--above", half)
    lines = [
        line
        for line in command(half, "bm25", good, "--data", folder, *both).out.splitlines()
        if "above " in line
    ]
    assert lines[0] == "above NAME: R@1 less that of NAME, paired example by example"
    assert [line.split("  ")[0] for line in lines[1:]] == ["above bm25", f"above {half}"]
    first, middle, last = measured(half, "bm25", good, "--data", folder, *both)
    assert set(first["recall_at_1_above"]) == {"bm25"}
    assert set(middle["recall_at_1_above"]) == {half}
    assert last["recall_at_1_above"][half] == last["recall_at_1_above_the_first"]
    assert (
        first["recall_at_1_above"]["bm25"]["value"] == -middle["recall_at_1_above"][half]["value"]
    )


def test_what_is_ranked(measured, folder, tmp_path):
    write_examples(numbered_examples(120), tmp_path / "other.parquet")
    assert [each["model"] for each in measured("bm25", folder)] == ["bm25"]
    assert [
        each["examples"] for each in measured("bm25", "--data", folder, tmp_path / "other.parquet")
    ] == [200, 100]
    (found,) = measured("bm25", folder, "--split", "valid", "--candidates", 60)
    assert (found["data"], found["examples"]) == (f"{folder} (valid)", 60)
    (found,) = measured("bm25", folder, "--sample", 40, "--candidates", 10)
    assert found["examples"] == 40
    assert found["units"] > 8  # drawn at random: the first 40 examples would be 8 threads


def test_all_canned_replies_are_ranked_for_each_chat(command, answer, tmp_path, models):
    replies, chats = tmp_path / "replies.jsonl", tmp_path / "chats.jsonl"
    canned = [*(f"Reply {i}." for i in range(30)), "reply 7"]
    replies.write_text(
        "".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(canned))
    )
    turns = [[f"message {i}", f"reply  {i}!" if i < 25 else "Something else 25"] for i in range(40)]
    chats.write_text("".join(json.dumps({"turns": each}) + "\n" for each in turns))
    good = next(iter(models))
    models[good].rule = lambda message, reply: float(number(message) == number(reply.rstrip(".")))
    words = (good, "bm25", "--replies", replies, "--data", chats)
    ours, bm25 = answer(*words)["results"]
    assert [ours["recall"][k]["value"] for k in ("1", "3", "10")] == [1.0, 1.0, 1.0]
    assert (ours["examples"], ours["candidates"], ours["dropped"], ours["ambiguous"]) == (
        25,
        30,
        15,
        0,
    )
    assert bm25["recall"]["1"]["value"] == 1.0
    ended = command(*words)
    assert "1 of 31 replies are equal to an earlier one" in ended.err
    table = tmp_path / "replies.csv"
    rows = "".join(f'{i},"{json.loads(line)["text"]}"\n' for i, line in enumerate(replies.read_text().splitlines()))
    table.write_text(f"title,Antwort\n{rows}")
    options = ("--replies", table, "--set", "columns=text=Antwort", "--data", chats)
    one, same = (answer("bm25", *each)["results"][0] for each in (options, words[2:]))
    assert {**one, "seconds": 0} == {**same, "seconds": 0}
    assert (
        "25 examples, 30 candidates each (the same for all); 15 left out: answered otherwise"
        in ended.out
    )


def test_copies_are_right_unless_the_papers_protocol_is_asked_for(command, tmp_path):
    write_examples(
        [Example((f"word{i % 4}",), f"word{i % 4}") for i in range(40)], tmp_path / "d.parquet"
    )
    words = ("bm25", tmp_path / "d.parquet", "--candidates", 20)
    ended = command(*words)
    assert "40 with a copy of the right response, which counts as right" in ended.out
    for option, recall in ((), 1.0), (("--copies", "wrong"), 0.0):
        assert (
            command(*words, *option, "--json").json["results"][0]["recall"]["1"]["value"] == recall
        )


def test_a_model_is_ranked_in_steps_and_bm25_at_once(command, monkeypatch, tmp_path, models):
    monkeypatch.setattr("rejoinder.cli.models.ENCODER_BLOCK", 100)
    assert ENCODER_BLOCK > 100
    calls = []
    score = BM25.score
    monkeypatch.setattr(BM25, "score", lambda *given: calls.append(len(given[1])) or score(*given))
    write_examples(numbered_examples(300), tmp_path / "d.parquet")
    good = next(iter(models))
    assert command(good, "bm25", "--data", tmp_path / "d.parquet")[0] == 0
    assert [len(contexts) for contexts, _ in models[good].calls] == [100, 100, 100]
    assert calls == [300]


def test_bad_input_gives_one_line_and_exit_code_2(refused, folder):
    for arguments, message in (
        (
            ["bm52", "DATA"],
            "no model 'bm52': give a model folder (RUN/model of a training run), bi-small, convert-small, an id",
        ),
        (["bm25"], "name the data with --data, or give exactly one model and one data set"),
        (["bm25", "x", "DATA"], "name the data with --data"),
        (["DATA", "--data", "DATA"], "data, not a model"),
        (["--data", "nowhere"], "error: no model before --data nowhere; name one or more: a model folder"),
        (["--data", "nowhere"], "convert-small, an id on the Hugging Face Hub (owner/name), minilm"),
        (
            ["bm25", "DATA", "--candidates", "300"],
            "250 examples cannot fill a group of 300 candidates",
        ),
        (["bm25", "DATA", "--candidates", "most"], "most: give a number of 2 or more, or all"),
        (["bm25", "DATA", "--candidates", "1"], "--candidates 1: give a number of 2 or more, or all"),
        (
            ["bm25", "DATA", "--split", "validation"],
            "validation: give one of train, valid, test",
        ),
        (["bm25", "DATA", "--split", "train"], "no train-*.parquet"),
        (["bm25", "nowhere"], "nowhere"),
        (
            ["bm25", "--data", "DATA", "--above", "tfidf"],
            "--above tfidf: not among the evaluated models",
        ),
        (
            ["bm25", "DATA", "--replies", "R", "--candidates", "100"],
            "different replies of R; leave --candidates out",
        ),
        (["bm25", "DATA", "--replies", "R", "--copies", "right"], "leave --copies out"),
        (["bm25", "DATA", "--replies", "R"], "R does not exist; name a file of replies"),
        (["bm25", "DATA", "--set", "columns=text=A"], "--set says how the file of --replies is read"),
        # Before the data is read:
        (["bm25", "nowhere.parquet", "--context", "newest"], "not 'newest'"),
        (
            ["bm25", "nowhere.parquet", "--context", "history"],
            "bm25 has no parts for input and history",
        ),
        (
            ["bm25", "nowhere.parquet", "--context", "table"],
            "bm25 has no parts for input and history",
        ),
        (["bm25", "nowhere.parquet", "--context", "table", "--above", "bm25"], "leave --above out"),
        (["bm25", "nowhere.parquet", "--context", "table", "-o", "out"], "leave -o out"),
    ):
        refused(*(str(folder) if word == "DATA" else word for word in arguments), said=message)


@pytest.mark.parametrize("name", ["FOLDER#r", "FOLDER#h", "hybrid:FOLDER#r", "bi-small#r"])
def test_a_model_with_its_vectors_needs_a_form_before_it(refused, folder, tmp_path, monkeypatch, name):
    monkeypatch.setattr("rejoinder.encoders.open.load", lambda name, **_: pytest.fail(f"opens {name}"))
    (tmp_path / "model").mkdir()
    model = "bi-small" if "bi-small" in name else str(tmp_path / "model")
    vectors = name[-1]
    refused(name.replace("FOLDER", model), "--data", folder, said=(
        f"{model}#{vectors}: #{vectors} chooses an encoder's vectors", f"name sim:{model}#{vectors} or map:"))  # fmt: skip
