"""Spellings of an earlier release are answered with today's, which the command line takes."""

import shlex

import pytest
import typer

from rejoinder.cli.app import app

RETIRED = {
    "index model 'my replies.txt' -o idx": "index build model 'my replies.txt' -o idx",
    "index -o idx model r.txt --limit=9 --overwrite": "index build model r.txt -o idx --overwrite --limit 9",
    "index model r.txt --output idx --store milvus": "index build model r.txt -o idx --store milvus",
    "index model r.txt -o idx --map": "index build model r.txt -o idx && rejoinder index map idx",
    "index model more.txt -o idx --append --deduplicate": "index add idx more.txt --model model --deduplicate",
    "index -o idx --delete 3": "index delete idx 3",
    "index -o idx --delete 3 --delete 5 --delete-id a1": "index delete idx 3 5 --id a1",
    "index idx --delete 3": "index delete idx 3",
    "index -o idx --delete 3 --compact": "index delete idx 3 && rejoinder index compact idx",
    "index -o idx --compact --json": "index compact idx --json",
    "index --reencode new idx -o new.idx": "index reencode idx new -o new.idx",
    "index -o idx --approximate": "index tune idx",
    "index model -o idx --approximate --recall 0.9 --data d": "index tune idx --model model --recall 0.9 --data d",
    "index -o idx --exact": "index tune idx --method exact",
    "index -o idx --map": "index map idx",
    "evaluate --index one --index=two --data d --hybrid 1": "index evaluate one two --data d --hybrid 1",
    "evaluate model d --context-table": "evaluate model d --context table",
    "data --about": "corpora",
    "data jsonl --about": "corpora jsonl",
    "data jsonl x --redact --respond agent -o d": "data jsonl x --set redact=true --set respond=agent -o d",
    "reply idx Hi --no-repeat": "reply idx Hi --omit both",
    "reply idx Hi --copies": "reply idx Hi --omit nothing",
    "reply idx Hi --no-repeat --copies": "reply idx Hi --omit repeats",
    "chat idx --copies --repeat": "chat idx --omit nothing",
    "chat idx --repeat": "chat idx --omit copies",
    "chat idx --copies": "chat idx --omit repeats",
    "intents train model t.csv -o c --several": "intents train model t.csv -o c --multi-label",
}


@pytest.mark.parametrize("old", RETIRED)
def test_an_old_spelling_is_answered_with_the_new_one(refused, old):
    line = refused(*shlex.split(old))
    assert line.endswith(f"now it is: rejoinder {RETIRED[old]}")
    for new in RETIRED[old].split(" && rejoinder "):
        verb, words = typer.main.get_command(app), shlex.split(new)
        while hasattr(verb, "commands"):
            verb = verb.commands[words.pop(0)]
        context = verb.context_class(verb, info_name=verb.name)
        verb.parse_args(context, words)  # the command line takes it


WRONG = ["index bild model", "index --no-such", "index bild a b -o c", "evaluate a b --indices x"]


@pytest.mark.parametrize("line", WRONG)
def test_what_was_never_right_is_no_old_spelling(refused, line):
    assert "now it is" not in refused(*shlex.split(line))


@pytest.mark.parametrize("line", ["reply nothing -- --copies", "index --help", "index"])
def test_words_that_are_no_option_are_no_old_spelling(command, line):
    result = command(*shlex.split(line))
    assert "now it is" not in result.err
