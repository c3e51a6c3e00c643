"""Bad input through the real command line: one clear line, exit code 2, never "looks like a bug"."""

import contextlib
import copy
import gc
import hashlib
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rejoinder.encoders.bundled import weights
from rejoinder.encoders.onnx.folder import MANIFEST
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.stores.address import store_of
from tests.retrieval.conftest import HashEncoder

BIG, WIDE = "9" * 5_000, str(2**70)
DEEP, PAIRS, OPEN = "[" * 9_000 + "]" * 9_000, '{"a":' * 9_000 + "1" + "}" * 9_000, "[" * 100_000
INTENTS = ["intents", "train", "convert-small"]
VALUES = {"big": BIG, "deep": DEEP, "pairs": PAIRS, "open": OPEN}


@pytest.fixture
def refused(refused, monkeypatch, tmp_path):
    """Run a command in a folder of its own: it ends with code 2; the line that it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        line = refused(*words)
        assert len(line) < 400
        return line

    return run


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize(
    ("name", "content", "arguments"),
    [
        (
            "a.jsonl",
            '{"turns": ["a", "b"], "from": %s}\n',
            ["data", "jsonl", "a.jsonl", "-o", "out"],
        ),
        (
            "a.jsonl",
            '{"context": ["a"], "response": "b", "x": %s}\n',
            ["data", "jsonl", "a.jsonl", "-o", "out"],
        ),
        ("a.jsonl", '{"question": "a", "answer": %s}\n', ["data", "faq", "a.jsonl", "-o", "out"]),
        ("a.json", '[{"messages-so-far": %s}]', ["data", "dstc7", "a.json", "-o", "out"]),
        ("a.json", "{'questionType': %s}", ["data", "amazon-qa", "a.json", "-o", "out"]),
        (
            "a.jsonl",
            '{"id": "a", "link_id": "t3_a", "body": %s}\n',
            ["data", "reddit", "a.jsonl", "-o", "out"],
        ),
        ("a.toml", "seed = %s", ["train", "a.toml", "--data", ".", "-o", "out"]),
        ("a.toml", "name = %s", ["lab", "table", "a.toml", "-o", "out"]),
        ("a.toml", "name = %s", ["lab", "ablate", "a.toml", "--data", ".", "-o", "out"]),
        ("a.jsonl", "{}\n", ["data", "reddit", "a.jsonl", "-o", "out", "--set", "depth=%s"]),
        (
            "a.toml",
            'name = "a"',
            ["train", "a.toml", "--data", ".", "-o", "out", "--set", "seed=%s"],
        ),
        ("a.csv", "text,label\na,b\n", [*INTENTS, "a.csv", "-o", "out", "--set", "strength=%s"]),
        ("a.json", '{"train": %s}', [*INTENTS, "a.json", "-o", "out"]),
        ("index/manifest.json", "%s", ["reply", "index", "Hello!"]),
        ("model/config.json", '{"format": 1, "model": %s}', ["reply", "model", "Hello!"]),
        ("model/config.json", "%s", ["index", "build", "model", "model/config.json", "-o", "out"]),
        ("classifier/config.json", "%s", ["intents", "predict", "classifier", "Hello!"]),
    ],
)
def test_large_and_deep_values(refused, tmp_path, name, content, arguments, value):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content.replace("%s", value))
    # a finaliser that ran where the stack has no room left would be reported as a failure
    gc.collect()
    refused(*(argument.replace("%s", value) for argument in arguments))


@pytest.mark.parametrize("text", [f"seed = {WIDE}", f"seed = -{WIDE}", f"[a]\nb = [1, {WIDE}]"])
def test_toml_integers_have_64_bits(refused, tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    assert "an integer of more than 64 bits" in refused(
        "train", "a.toml", "--data", ".", "-o", "out"
    )
    (tmp_path / "a.toml").write_text('name = "a"')
    line = refused(
        "train",
        "a.toml",
        "--data",
        ".",
        "-o",
        "out",
        "--set",
        text.splitlines()[-1].replace(" = ", "="),
    )
    assert "an integer of more than 64 bits" in line


def test_xml_nested_deeply(refused, tmp_path):
    (tmp_path / "a.xml").write_text("<mediawiki><page>" + "<a>" * 99_999)
    refused("data", "wikipedia", "a.xml", "-o", "out")
    (tmp_path / "b.xml").write_text("<xml><Thread>" + "<a>" * 99_999)
    refused("data", "semeval", "b.xml", "-o", "out")


def places(value, above=()):
    yield above
    for key, item in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(item, (*above, key))


def test_fields_of_a_manifest_of_a_wrong_type(refused, tmp_path):
    """With a fingerprint that fits, so that the types alone are wrong."""
    Index.build(HashEncoder(), ["Hello!", "Bye."], tmp_path / "index")
    path = tmp_path / "index" / "manifest.json"
    whole = json.loads(path.read_text())
    for place in places(whole):
        for wrong in (None, True, 1.5, -1, 10**30, [1], {"a": 1}):
            if (place[-1:] == ("longest",) and type(wrong) in (float, int)) or (
                place == ("format",) and wrong is True
            ):
                continue  # allowed
            top = changed = {"": copy.deepcopy(whole)}
            for key in ("", *place)[:-1]:
                changed = changed[key]
            changed[("", *place)[-1]] = wrong
            if place[:1] != ("fingerprint",):
                with contextlib.suppress(KeyError, TypeError):
                    top[""]["fingerprint"] = fingerprint(top[""])
            path.write_text(json.dumps(top[""]))
            with pytest.raises(InputError, match=r"manifest\.json"):
                store_of(tmp_path / "index").read_manifest()
    assert "manifest.json" in refused("reply", "index", "Hello!")


def fingerprint(manifest):
    content = {name: manifest[name] for name in ("dtype", "size", "segments", "deleted")}
    text = json.dumps(content | {"model": manifest["model"]["fingerprint"]}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("key", ["embedding_size", "output_size", "feed_forward_2_layers"])
def test_a_model_of_an_impossible_size(refused, tmp_path, key):
    folder = shutil.copytree(weights("convert-small").folder, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["model"][key] = 10**30
    (folder / "config.json").write_text(json.dumps(config))
    (folder / MANIFEST).unlink()  # so that the weights are opened, and not the ONNX programs
    (tmp_path / "replies.txt").write_text("Hello!\n")
    assert "model/config.json is damaged" in refused(
        "index", "build", "model", "replies.txt", "-o", "out"
    )


@pytest.mark.parametrize("label", [2, -1, 2**40, None])
@pytest.mark.parametrize(
    "arguments", [["evaluate", "bm25", "--data"], ["evaluate", "convert-small", "--data"]]
)
def test_a_label_beyond_the_candidates(refused, tmp_path, label, arguments):
    columns = {
        "context": [["Hi!"]] * 2,
        "response": ["a"] * 2,
        "candidates": [["a", "b"]] * 2,
        "label": [0, label],
    }
    pq.write_table(pa.table(columns), tmp_path / "test-00000.parquet")
    line = refused(*arguments, "test-00000.parquet")
    assert f"test-00000.parquet: row 1 has label {label}; with 2 candidates it is 0 to 1" in line


DAMAGED = [
    "x",
    "[]",
    "null",
    '{"step": 1}',
    '{"step": "a", "stage": "b"}',
    '{"step": 1, "stage": 2}',
    '{"step": 1, "stage": "a", "seconds": "b"}',
    '{"step": null, "stage": "a"}',
    BIG,
    DEEP,
    "\udcff",
]


def test_a_damaged_metrics_file(refused, tmp_path):
    shutil.copytree(weights("convert-small").folder, tmp_path / "run" / "model")
    fine = json.dumps(
        {"step": 1, "stage": "a", "examples": 9, "examples_per_second": 3.0, "seconds": 3.0}
    )
    for line in DAMAGED:
        (tmp_path / "run" / "metrics.jsonl").write_bytes(
            f"{fine}\n{line}\n".encode(errors="surrogateescape")
        )
        assert "run/metrics.jsonl:2: damaged (" in refused("list", "models", "run", "--sizes")


ESCAPES = "\x1b[31mred\x07\x9b2J"


def test_control_characters_of_the_input_are_not_shown(refused, command, tmp_path):
    (tmp_path / f"{ESCAPES}.jsonl").write_text("no\n")
    (tmp_path / "a.toml").write_text('"\\u001b[31m" = 1')
    (tmp_path / "replies.txt").write_text(f"Hello {ESCAPES}!\n")
    for arguments in (["data", "jsonl", f"{ESCAPES}.jsonl"], ["lab", "table", "a.toml"]):
        line = refused(*arguments, "-o", "out")
        assert "\ufffd[31m" in line
        assert line.isprintable()
    for arguments in (
        ["data", "jsonl", f"{ESCAPES}.jsonl", "-o", "out", "--skip-bad", "9"],
        ["index", "build", "convert-small", "replies.txt", "-o", f"index {ESCAPES}"],
        ["reply", f"index {ESCAPES}", "Hello!"],
    ):
        _, out, err = command(*arguments)
        shown = out + err
        assert "\ufffd[31m" in shown
        assert shown.replace("\n", "").isprintable(), shown


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize(
    "words",
    [
        ["reply", "index", "Hi!", "--minimum-score"],
        ["reply", "index", "Hi!", "--minimum-confidence"],
        ["reply", "index", "Hi!", "--diversity"],
        ["reply", "index", "Hi!", "--hybrid"],
        ["chat", "index", "--minimum-score"],
        ["index", "tune", "index", "--recall"],
        ["index", "evaluate", "index", "--data", "x", "--hybrid"],
        ["join", "a", "b", "-o", "c", "--share"],
        ["lab", "plot", "x", "--data", "x", "-o", "a.png", "--perplexity"],
        ["intents", "train", "convert-small", "x", "-o", "y", "--reject"],
    ],
)
def test_no_option_is_a_number_without_end_or_none(refused, words, value):
    assert words[-1].strip("-") in refused(*words[:-1], f"{words[-1]}={value}")
