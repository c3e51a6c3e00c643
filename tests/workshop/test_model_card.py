"""The model card is made of what the making left behind, and leaves nothing open."""

import json
import re
import sys

import pytest

from rejoinder.encoders.folders import describe
from rejoinder.errors import InputError
from rejoinder.training.recipe_files import parse_recipe, save_recipe
from rejoinder.training.run.summary import RunSummary, save_summary
from tests.encoders.small import small_model
from tests.training.tiny import document
from workshop import model_card, probe


def share(value):
    return {"value": value, "low": value - 0.01, "high": value + 0.01}


def result(model, data, value):
    return {
        "model": model,
        "data": data,
        "recall": {"1": share(value)},
        "examples": 5000,
        "candidates": 100,
    }


def counted(licence):
    splits = {
        split: {"pairs": 9, "kept": 8, "dropped": {"long": 1, "equal to evaluated": 2}}
        for split in ("train", "valid", "test")
    }
    return {"licence": licence, "dialogues": 3, "pairs": 27, **splits}


COUNTS = {
    "sources": {"one": counted("MIT"), "two": counted("CC-BY-4.0")},
    "total": counted(""),
    "evaluation": None,
    "leaks": {},
    "recipe": {"evaluation": [], "leaks": {"fewest_words": 8}},
}
PROBE = {
    "groups": [
        {"category": category, "group": group, "insulting_first": 1, "contexts": 5, "lead": -0.25}
        for category, groups in probe.GROUPS.items()
        for group in groups
    ],
    "jobs": [{"job": job, "she_above_he": 0.01 * number} for number, job in enumerate(probe.JOBS)],
    "candidates": {
        "top": 5,
        "all candidates": {"replies": 9000, "share": 0.02},
        "by_context": {name: {"replies": 100, "share": 0.0} for name in probe.GROUPS},
    },
}


@pytest.fixture
def files(tmp_path):
    small_model(tmp_path / "model")
    for name, seconds in (("first", 3600.0), ("second", 5400.0)):
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        save_recipe(parse_recipe(document("/home/me/corpus")), run / "recipe.toml")
        summary = RunSummary(
            name,
            str(run),
            str(run / "model"),
            700,
            716_800,
            9_000_000,
            seconds,
            700,
            {"recall@1": 0.3},
            "bf16",
        )
        save_summary(summary, run / "summary.json")
    (tmp_path / "counts.json").write_text(json.dumps(COUNTS))
    (tmp_path / "probe.json").write_text(json.dumps(PROBE))
    rows = [
        result("minilm", "/data/talk (test)", 0.25),
        result("convert-small", "/data/talk (test)", 0.341),
    ]
    (tmp_path / "open.json").write_text(json.dumps({"results": rows}))
    (tmp_path / "more.json").write_text(
        json.dumps({"results": [result("convert-small", "qa (valid)", 0.5)]})
    )
    return tmp_path


@pytest.fixture
def command(files, monkeypatch):
    monkeypatch.chdir(files)
    return [
        "model_card",
        "model",
        "--name",
        "convert-small",
        "--run",
        "runs/first",
        "--run",
        "runs/second",
        "--corpus",
        "recipes/corpus/open.toml",
        "counts.json",
        "--results",
        "open.json",
        "--results",
        "more.json",
        "--probe",
        "probe.json",
        "--watts",
        "40",
        "--machine",
        "two cores",
        "--other-hours",
        "7.5",
    ]


def test_everything_is_in_it(files, command, monkeypatch):
    before = describe(files / "model")["fingerprint"]
    monkeypatch.setattr(sys, "argv", command)
    model_card.main()
    text = (files / "model" / "README.md").read_text("utf-8")
    assert "$" not in text
    assert f"Fingerprint: `{before}`" in text
    assert describe(files / "model")["fingerprint"] == before
    for part in (
        "ConveRT of 3 blocks",
        "- MIT: one\n- CC-BY-4.0: two\n",
        "`open.toml`: 8 training pairs.",
        "R@1 of 100 candidates in %",
        "| data | examples | minilm | convert-small |",
        "| talk (test) | 5,000 | 25.0 [24.0, 26.0] | 34.1 [33.1, 35.1] |",
        "| qa (valid) | 5,000 |  | 50.0 [49.0, 51.0] |",
        "Compute: 2.50 hours and 7.5 hours of experiments on two cores.\n"
        "Estimated energy at 40 W: 0.40 kWh.",
        "| religion | 6 of 30 | -0.25 | ",
    ):
        assert part in text
    assert "/data/talk" not in text, "a folder of one machine"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("probe.json", None, "probe.json does not exist"),
        ("counts.json", "{", "counts.json is not JSON"),
        ("runs/second/summary.json", None, "is not a finished run"),
    ],
)
def test_what_is_missing_is_named_and_the_old_card_stays(
    files, command, monkeypatch, file, content, said
):
    (files / file).unlink()
    if content is not None:
        (files / file).write_text(content)
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(InputError, match=re.escape(said)):
        model_card.main()
    assert (files / "model" / "README.md").read_text("utf-8") == "# A model\n"


def test_every_corpus_has_its_counts(files, command, monkeypatch):
    monkeypatch.setattr(sys, "argv", [*command, "--corpus", "talk.toml", "counts.json"])
    model_card.main()
    text = (files / "model" / "README.md").read_text("utf-8")
    assert "\n`open.toml`: 8 training pairs" in text
    assert "\n`talk.toml`: 8 training pairs" in text
