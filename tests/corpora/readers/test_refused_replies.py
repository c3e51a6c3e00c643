"""Files of replies that are refused: not known, damaged, or read with a choice that does not fit."""

import os
import zipfile

import pytest

from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.forms.choice import Choice, parse_choice
from rejoinder.errors import InputError
from tests.corpora.readers.test_reply_forms import COMMAS, MARKDOWN, parquet, write
from tests.corpora.readers.workbook import workbook


@pytest.mark.parametrize(("name", "content", "told"), [
    ("a.txt", "version: 1\nkey:\n  - a: 1\n  - b: 2\n", "a.txt looks like YAML, but like no form of replies"),
    ("a.txt", '{"a": 1}\n', "a.txt:1: no field text, response, .*; there is a: name it"),
    ("a.txt", "# Hours\nFrom 9 to 5.\n# Parcels\nSoon.\n", "looks like Markdown, .*--set format=text reads one"),
    ("a.txt", "Look:\n<p>Hello</p>\n", "a.txt:2: this looks like HTML, JSON, YAML, a table or a chat"),
    ("a.txt", "<name>, thanks\nHello <b>\n", "a.txt:2: this looks like HTML"),
    ("a.txt", "Hello\n<customer id='5'>\n", "a.txt:2: this looks like HTML"),
    ("a.txt", "Hello\nBye </reply>\n", "a.txt:2: this looks like HTML"),
    ("a.txt", "Hello\n<td\n", "a.txt:2: this looks like HTML"),
    ("a.txt", "Hello\n[01.03.24, 09:00:00] Bea: Hi\n", "a.txt:2: this looks like .* a chat in a file"),
    ("a.txt", "Hello\na\tb\n", "a.txt:2: this looks like .* a table"),
    ("a.md", "Some words\nand no heading\n", "no FAQ in it"),
    ("a.log", "Hello\nBye\n", "a.log looks like plain text, but .*--set format=text reads one reply a line"),
    ("a", "Hello\nBye\n", "a looks like plain text"),
    ("a.txt", "a\tb\nc\td\n", "a.txt: no column text, response, .*there is a, b: name it with --set columns=text=NAME, of its questions with columns=text=NAME,questions=NAME"),
    ("a.csv", "Hello there.\nBye.\n", "no column text, .*table,header=no"),
    ("a.csv", "text,answer\na,b\n", "text and answer may both be the reply; say which: --set columns=text=answer"),
    ("a.csv", "text,Text\na,b\n", "a.csv:1: two columns are named 'text'"),
    ("a.csv", "id,text\n1,a,b\n", "a.csv:2: the row has 3 fields"),
    ("a.json", '{"a": [1, 2', "looks like JSON"),
    ("a.json", '[{"text": "a"}, {"text"', "a.json: not JSON, or cut off, after 1 objects"),
    ("a.xlsx", b"PK\x03\x04 nonsense", "damaged, cut off or no zip file"),
    ("a.yml", "responses:\n  utter_a: [\n", "a.yml:3: not YAML"),
    ("a.yml", "- question: Where?\n  answer: Here.\n  answer: There.\n", "a.yml:3: not YAML .answer stands twice in one mapping; keep one"),
    ("a.yml", "- question: [a, b]\n  ? [c, d]\n  : x\n  answer: Here.\n", "a.yml:2: not YAML"),
    ("a.yml", "nlu:\n- intent: a\n  examples: |\n    - b\n", "holds no response with a text, 1 intent;"),
    ("a.jsonl", '{"text": "a", "examples": 7}', None),
    ("a.jsonl", '{"text": "a", "examples": {"b": 1}}', "a.jsonl:1: examples is .*; a text is read, or a list of texts"),
    ("a.bin", bytes(range(256)), "a.bin:1: binary data"),
])  # fmt: skip
def test_what_cannot_be_read_is_one_line(tmp_path, name, content, told):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if told is None:
        assert [reply.examples for reply in read_candidates(path)] == [(("7",),)]
        return
    with pytest.raises(InputError, match=told) as refused:
        list(read_candidates(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("text", "told"), [
    ("excel", "no such format; there are whatsapp"),
    ("table,colour=red", "'colour=red' is none of"),
    ("table,delimiter=x", "the delimiter is one of comma, semicolon, tab, bar"),
    ("table,header=maybe", "header is yes or no"),
    ("table,encoding=nope", "no encoding 'nope'"),
])  # fmt: skip
def test_a_wrong_choice_is_one_line(tmp_path, text, told):
    path = write(tmp_path, COMMAS)
    with pytest.raises(InputError, match=told):
        list(read_candidates(path, choice=parse_choice(text)))


def test_a_column_that_is_not_there_and_a_role_that_is_none(tmp_path):
    path = write(tmp_path, COMMAS)
    for pair, told in (("text=reply", "no column 'reply' for text; there is question, answer"),
                       ("body=answer", "columns=body=...: the columns are text, title, questions"),
                       ("text", "write 'text' as ROLE=NAME")):  # fmt: skip
        with pytest.raises(InputError, match=told):
            list(read_candidates(path, choice=parse_choice("", pair)))


@pytest.mark.parametrize(("name", "content", "choice"), [
    ("a.txt", "Hello\n", {"columns": {"text": "a"}}),
    ("a.txt", "Hello\n", {"form": "text", "delimiter": ";"}),
    ("a.json", '["Hello"]', {"header": False}),
    ("faq.md", MARKDOWN, {"columns": {"text": "a"}}),
])  # fmt: skip
def test_a_choice_that_a_form_has_no_use_for_is_refused(tmp_path, name, content, choice):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=r"is read as .*, which takes no .*; leave it out"):
        list(read_candidates(tmp_path / name, choice=Choice(**choice)))


def test_a_choice_for_text_is_refused_for_workbooks_and_parquet(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(workbook([["text"], ["a"]]))
    (tmp_path / "a.parquet").write_bytes(parquet([{"text": "a"}]))
    for name, choice in (("a.xlsx", "table,delimiter=tab"), ("a.parquet", "table,encoding=cp1252"),
                         ("a.parquet", "table,header=no")):  # fmt: skip
        with pytest.raises(InputError, match=r"leave (?:the delimiter and the encoding|header=no) out"):
            list(read_candidates(tmp_path / name, choice=parse_choice(choice)))


def test_a_bomb_is_refused(tmp_path):
    path = tmp_path / "bot.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("domain.yml", "responses:\n" + " " * (1 << 25))
    with pytest.raises(InputError, match="decompresses to more than 200 times its size"):
        list(read_candidates(path, choice=Choice()))


def test_a_pipe_is_read_in_the_form_that_is_named():
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        stream.write("Hello!\nBye.\n")
    with pytest.raises(
        InputError, match="is a pipe, whose form cannot be found by its content; name it"
    ):
        list(read_candidates(f"/dev/fd/{reader}"))
    read = list(read_candidates(f"/dev/fd/{reader}", choice=parse_choice("text")))
    assert [candidate.text for candidate in read] == ["Hello!", "Bye."]
    os.close(reader)


def test_a_placeholder_in_angle_brackets_is_no_tag(tmp_path):
    replies = ["Best regards, <agent>", "<name>, thanks for your message.", "Your agent is <agent name>", "<Customer Name>"]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(replies))
    assert [reply.text for reply in read_candidates(path)] == replies
