"""A thousand damaged files of all forms: each is one clear line, or read as what it is, which is said."""

import random
import re
from pathlib import Path

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.recognition import FORMS, find_form
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.corpora.forms.choice import Choice
from rejoinder.errors import InputError
from tests.corpora.readers import fifty_chats
from tests.corpora.readers.test_reply_forms import FILES

SETTINGS = ChatsSettings(agent=f"{fifty_chats.AGENT},AdaShop,@x.org")
SUFFIXES = [".txt", ".csv", ".json", ".jsonl", ".md", ".yml", ".html", ".xlsx", ".eml", ".zip", ""]
# Marks of the forms that no reply and no message of the originals has: none may be read as a text.
MARKUP = re.compile(
    r'["\']: |</\w+>|^- (?:text|intent):|^version:|"\}|^Message-ID:|\\n\\n|^From ', re.MULTILINE
)


@pytest.fixture
def originals(monkeypatch, tmp_path):
    monkeypatch.setattr(fifty_chats, "CHATS", fifty_chats.CHATS[:3])
    files = [
        (file.form, file.name, file.content)
        for file in FILES
        if not (isinstance(file.content, dict) or file.format)
    ]
    for form, makes in fifty_chats.FORMS.items():
        for make in makes:
            folder = tmp_path / make.__name__
            folder.mkdir()
            path = fifty_chats.write_files(folder, make)[0]
            files.append((form, path.name, path.read_bytes()))
    return [(form, name, text.encode() if isinstance(text, str) else text) for form, name, text in files]


def mutated(draw, data, others):
    """The data cut off, changed, with a piece missing, or going on as another file."""
    kind = draw.choice(["cut", "cut", "change", "drop", "mix"])
    place = draw.randrange(len(data) + 1)
    if kind == "cut":
        return data[:place]
    if kind == "change":
        return data[:place] + draw.randbytes(draw.randint(1, 3)) + data[place + 1 :]
    if kind == "drop":
        return data[:place] + data[place + draw.randint(1, 60) :]
    other = draw.choice(others)[2]
    return data[:place] + b"\n" * draw.randint(0, 1) + other[draw.randrange(len(other)) :]


def outcome(path, read):
    """Whether a file is read, and its texts, unless a note says what is wrong with them."""
    reading = Reading()
    try:
        texts = read(path, reading)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert str(path) in str(error)  # noqa: PT017
        return None, []
    assert any(
        form.title in note or "table" in note or "FAQ page" in note or ": JSON: " in note or ": text" in note
        for note in reading.notes
        for form in FORMS.values()
    ), reading.notes
    return True, [] if any("hold HTML or JSON" in note for note in reading.notes) else texts


def replies_of(path, reading):
    return [candidate.text for candidate in read_candidates(path, reading=reading)]


def messages_of(path, reading):
    examples = read_chats(path, reading, SETTINGS)
    return [text for example in examples for text in (*example.context, example.response)]


def test_a_thousand_mutated_files_are_refused_or_read_as_what_they_are(tmp_path, originals):
    draw = random.Random(46)
    read = refused = 0
    strange = []
    for number in range(1_000):
        form, name, data = originals[number % len(originals)]
        suffix = draw.choice(SUFFIXES) if draw.random() < 0.2 else Path(name).suffix
        path = tmp_path / f"{number}{suffix}"
        path.write_bytes(mutated(draw, data, originals))
        for holds, reader in (("replies", replies_of), ("chats", messages_of)):
            is_read, texts = outcome(path, reader)
            read += bool(is_read)
            refused += not is_read
            garbage = [text for text in texts if MARKUP.search(text)]
            if garbage:
                strange.append((form, path.name, garbage[0][:80], find_form(path, Choice(), holds)[0].name))
    assert not strange, strange
    assert read > 200
    assert refused > 1_000
