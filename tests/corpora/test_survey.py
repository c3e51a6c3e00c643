"""A survey of a corpus: the examples that its build makes, and its chats."""

import json
from pathlib import Path

import pytest

from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.forms.formats import JSONL
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.pipeline.survey import survey
from rejoinder.corpora.readers.pairs.opensubtitles import OPENSUBTITLES
from rejoinder.corpora.readers.pairs.semeval import SEMEVAL
from rejoinder.corpora.schema import Example
from rejoinder.errors import InputError
from tests.corpora.jobs import build, pairs
from tests.corpora.readers.test_semeval import COMMENTS, HEAD, thread


def look(corpus, *inputs, reading=None, limit=None, progress=lambda _: None):
    return survey(
        corpus,
        inputs,
        corpus.settings(),
        reading or Reading(),
        lambda texts: [len(text) for text in texts],
        limit,
        progress,
    )


def test_a_file_is_read_for_its_split_as_in_a_build(tmp_path):
    path = tmp_path / "dev.xml"
    path.write_text(HEAD + "".join(thread(f"Q1_R{number}", COMMENTS) for number in range(8)) + "</xml>")
    for part, count in (("valid", 8), ("train", 16)):
        account = build(SEMEVAL, [f"{part}={path}"], tmp_path / part)
        assert account.splits[part].read == count
        seen = look(SEMEVAL, Input(path, part))
        assert seen.examples == count
        assert [(each.context, each.response) for each in seen.shown] == pairs(tmp_path / part)[:3]


def read_parts(path, reading, settings):
    """Name the split in each message."""
    assert path.exists()
    for number in range(2):
        text = "<name>" if settings.redact else "Anna"
        yield Example((f"{reading.part} {number} {text}",), "reply", "1", "1", "parts")


def test_a_redacted_look_is_for_the_split_too(tmp_path):
    corpus = Corpus("parts", "", "", "", "", "", read=read_parts, settings=JSONL.settings)
    for name in ("a", "b"):
        (tmp_path / name).touch()
    files = [Input(tmp_path / "a", "valid"), Input(tmp_path / "b", "test")]
    settings = corpus.settings(redact=True)
    seen = survey(corpus, files, settings, Reading(), lambda texts: [1] * len(texts))
    assert [each.context[0] for each in seen.shown] == ["valid 0 <name>", "valid 1 <name>", "test 0 <name>"]


def film(folder: Path, count: int) -> Input:
    path = folder / "film.txt"
    path.write_text("".join(f"This is line {number}.\n" for number in range(count)))
    return Input(path)


@pytest.mark.parametrize("count", [20, 201, 202, 203, 1500])
@pytest.mark.parametrize("history", [0, 10, 300])
def test_a_film_is_one_chat_however_long_it_is(tmp_path, count, history):
    done = []
    seen = look(OPENSUBTITLES, film(tmp_path, count), reading=Reading(history=history), progress=done.append)
    assert (seen.examples, seen.messages_a_chat, len(seen.lengths)) == (count - 1, [count], count)
    assert [len(each.context) for each in seen.shown] == [min(length, history + 1) for length in (1, 2, 3)]
    assert sum(done) == count


def test_lines_that_are_no_response_are_of_the_film(tmp_path):
    path = tmp_path / "film.txt"
    lines = [f"This is line {number}." if number % 5 else "Oh!" for number in range(600)]
    path.write_text("\n".join(lines))
    assert look(OPENSUBTITLES, Input(path)).messages_a_chat == [600]


def test_two_films_are_two_chats(tmp_path):
    files = []
    for name in ("a.txt", "b.txt"):
        path = tmp_path / name
        path.write_text("".join(f"This is line {number}.\n" for number in range(400)))
        files.append(Input(path))
    assert look(OPENSUBTITLES, *files).messages_a_chat == [400, 400]


def test_all_of_the_history_is_refused_as_in_a_build(tmp_path):
    with pytest.raises(InputError, match="give --history N"):
        look(OPENSUBTITLES, film(tmp_path, 20), reading=Reading(history=None))


def test_chats_that_begin_alike_are_several(tmp_path):
    path = tmp_path / "own.jsonl"
    short = ["Hi", "Hello, how can I help?"]
    long = [*short, "Where is it?", "On its way."]
    chats = [(short, "1"), (long, "2"), (long, "3"), (long, "3"), (short, "4")]
    path.write_text("\n".join(json.dumps({"turns": turns, "thread": thread}) for turns, thread in chats))
    seen = look(JSONL, Input(path))
    assert (seen.messages_a_chat, len(seen.lengths)) == ([2, 4, 4, 4, 2], 16)
