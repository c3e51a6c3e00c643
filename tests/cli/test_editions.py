"""Files of replies that an index has already: their ids, their texts, and new editions of them."""

import json
from pathlib import Path

import pytest

from rejoinder.retrieval.index import Index
from tests.cli.test_retrieval_verbs import LINES, models  # noqa: F401 (a fixture)

EDITIONS = [{"text": "Hello!", "id": "a1"}, {"text": "At one.", "id": "a2", "questions": ["When?"]}, {"text": "New", "id": 9}]


@pytest.fixture
def two_files(tmp_path):
    for name, lines in (("old.jsonl", LINES), ("new.jsonl", EDITIONS)):
        (tmp_path / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_ids_that_are_there_already_are_named(command, two_files):  # noqa: ARG001
    command("index", "build", "model", "old.jsonl", "-o", "idx")
    assert "2 ids were there already" in (told := command("index", "add", "idx", "new.jsonl").err)
    assert "a1, a2" in told
    assert "--replace" in told
    assert [reply.text for _, reply in Index.open("idx")] == ["Hello!", "At noon.", "Bye.", "Hello!", "At one.", "New"]


def test_texts_that_are_there_already_are_counted(command, two_files):  # noqa: ARG001
    command("index", "build", "model", "old.jsonl", "-o", "idx")
    (Path("copies.txt")).write_text("Bye.\nUnheard of.\n")
    assert "has the texts of 1 of these replies already; --deduplicate" in command("index", "add", "idx", "copies.txt").err
    assert "already" not in command("index", "add", "idx", "copies.txt", "--deduplicate").err


def test_replies_that_lose_their_examples_are_named(command, two_files):  # noqa: ARG001
    command("index", "build", "model", "new.jsonl", "-o", "idx")
    (Path("texts.jsonl")).write_text(json.dumps({"text": "At two.", "id": "a2"}) + "\n")
    assert "those of the old ones are gone: a2;" in command("index", "add", "idx", "texts.jsonl", "--replace").err


def test_replace_puts_the_new_edition_in_the_old_ones_place(command, two_files):  # noqa: ARG001
    command("index", "build", "model", "old.jsonl", "-o", "idx")
    captured = command("index", "add", "idx", "new.jsonl", "--replace")
    assert "were there already" not in captured.err
    assert [(at, reply.text) for at, reply in Index.open("idx")] == [
        (0, "Hello!"), (1, "At one."), (2, "Bye."), (3, "New")]  # fmt: skip
    assert Index.open("idx").candidate(1).examples == (("When?",),)
    assert "1 replaced" in captured.out
    before = (Path("idx") / "manifest.json").read_bytes()
    command("index", "add", "idx", "new.jsonl", "--replace")
    assert (Path("idx") / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("name", ["id", "ID"])
def test_the_column_of_ids_may_be_written_in_capitals(command, name):
    Path("old.csv").write_text(f"{name},Text\n1,Three days.\n2,We open at nine.\n")
    Path("new.csv").write_text(f"{name},Text\n2,We open at ten.\n")
    command("index", "build", "model", "old.csv", "-o", "idx")
    assert "1 replaced" in command("index", "add", "idx", "new.csv", "--replace").out
    command("index", "delete", "idx", "--id", "2")
    assert [reply.text for _, reply in Index.open("idx")] == ["Three days."]
