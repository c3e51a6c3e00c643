"""Spellings of an earlier release are answered with what replaces them today."""

import shlex

import pytest
import typer

from rejoinder.cli.app import app
from rejoinder.cli.shell import RETIRED

LINES = {
    "index model 'my replies.txt' -o idx": "rejoinder index build",
    "index model r.txt --output=idx --store milvus": "rejoinder index build",
    "index model more.txt -o idx --append --deduplicate": "rejoinder index add",
    "index idx --delete 3": "rejoinder index delete",
    "index -o idx --delete-id=a1": "rejoinder index delete --id",
    "index -o idx --compact --json": "rejoinder index compact",
    "index --reencode new idx -o new.idx": "rejoinder index reencode",
    "index -o idx --approximate --recall 0.9": "rejoinder index tune",
    "index -o idx --exact": "rejoinder index tune --method exact",
    "index -o idx --map": "rejoinder index map",
    "evaluate --index one --index=two --data d": "rejoinder index evaluate",
    "evaluate model d --context-table": "--context table",
    "data --about": "rejoinder corpora",
    "data jsonl x --redact -o d": "--set redact=true",
    "data jsonl x --respond agent -o d": "--set respond=VALUE",
    "reply idx Hi --no-repeat": "--omit both",
    "reply idx Hi --copies": "--omit nothing",
    "reply idx Hi --model folder": "REJOINDER_MODEL=FOLDER in the environment",
    "serve idx --model=folder": "REJOINDER_MODEL=FOLDER in the environment",
    "chat idx --repeat": "--omit copies",
    "chat idx --copies": "--omit repeats",
    "export model --quantized --eight-bits -o small": "--to eight-bits",
    "export model --onnx -o onnx": "--to onnx",
    "data reddit x -o d --engine ray --address auto": "--ray ADDRESS",
    "data reddit x -o d --skip-bad --max-bad 9": "--skip-bad N",
    "feedback i --delete --before 2026-01-31": "--delete before=DAY",
    "feedback i --delete --source=anna": "--delete source=NAME",
    "feedback i --delete --entry 3": "--delete N",
    "tokenise r.toml -o d --engine=ray": "--ray ADDRESS",
    "index build model r.txt -o i --engine ray": "--ray ADDRESS",
    "index build model r.txt -o i --format text": "--set format=NAME",
    "index build model r.csv -o i --column text=Antwort": "--set columns=ROLE=NAME",
    "intents train model t.csv -o c --several": "--multi-label",
}


@pytest.mark.parametrize("old", LINES)
def test_an_old_spelling_is_answered_with_the_new_one(refused, old):
    assert refused(*shlex.split(old)).endswith(f"now it is: {LINES[old]}")


def _verb(words):
    verb = typer.main.get_command(app)
    while words and hasattr(verb, "commands"):
        verb = verb.commands[words.pop(0)]
    return verb


@pytest.mark.parametrize("old", RETIRED)
def test_what_replaces_an_old_spelling_is_there_and_what_is_retired_is_not(old):
    for option, today in RETIRED[old].items():
        known = {name for parameter in _verb(old.split()).params for name in parameter.opts}
        assert option not in known
        words = today.split()
        verb = _verb(words[1:]) if words[0] == "rejoinder" else _verb(old.split())
        known = {name for parameter in verb.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


WRONG = ["index bild model", "index --no-such", "index bild a b", "evaluate a b --indices x"]


@pytest.mark.parametrize("line", WRONG)
def test_what_was_never_right_is_no_old_spelling(refused, line):
    assert "now it is" not in refused(*shlex.split(line))


@pytest.mark.parametrize("line", ["reply nothing -- --copies", "index --help", "index"])
def test_words_that_are_no_option_are_no_old_spelling(command, line):
    result = command(*shlex.split(line))
    assert "now it is" not in result.err
