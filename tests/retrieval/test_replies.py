"""Replies come out of the files people have; a bad line is named by file, line and reason."""

import gzip
import json

import pytest
import zstandard

from rejoinder.corpora.schema import Candidate, Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.errors import InputError


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return path


def texts(path, split=None):
    return [candidate.text for candidate in read_candidates(path, split)]


def test_plain_text_is_one_reply_a_line_without_blank_lines(tmp_path):
    path = write(tmp_path / "replies.txt", "Hello!\r\n\n   \n  At noon, I think.  \nÇa va 👍\nHello!")
    wanted = ["Hello!", "At noon, I think.", "Ça va 👍", "Hello!"]
    assert list(read_candidates(path)) == [Candidate(text) for text in wanted]


@pytest.mark.parametrize("name", ["text", "response", "reply", "answer"])
def test_jsonl_keeps_the_other_fields_as_payload(tmp_path, name):
    lines = [{name: " Hi\nthere ", "id": 7, "tags": ["a"]}, {"category": None, name: "Bye"}]
    path = write(tmp_path / "replies.jsonl", "\n\n".join(map(json.dumps, lines)))
    wanted = Candidate(" Hi\nthere ", {"id": 7, "tags": ["a"]}), Candidate("Bye", {"category": None})
    assert tuple(read_candidates(path)) == wanted


def test_a_reply_of_several_messages_is_one_text_and_comes_back_with_its_messages(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"text": ["Hi!", "How can I help?"], "id": 1}\n{"text": ["One."]}\n')
    assert list(read_candidates(path)) == [
        Candidate("Hi! How can I help?", {"id": 1, "messages": ["Hi!", "How can I help?"]}),
        Candidate("One.", {"messages": ["One."]}),
    ]
    for line, told in (('{"text": ["a", 1]}', "a text is needed, or a list"), ('{"text": []}', "a text is needed"),
                       ('{"text": ["a"], "messages": 1}', "there is a field messages too")):  # fmt: skip
        path.write_text(line)
        with pytest.raises(InputError, match=told):
            list(read_candidates(path))


def test_csv_keeps_the_other_columns_as_payload_and_line_breaks_in_quotes(tmp_path):
    path = write(tmp_path / "replies.csv", ',id,reply\r\n0,a7,"Hi, you\r\nthere"\r\n\r\n1,a8,Bye\r\n')
    assert list(read_candidates(path)) == [Candidate("Hi, you\nthere", {"id": "a7"}), Candidate("Bye", {"id": "a8"})]


def test_examples_give_their_distinct_responses_of_a_split(tmp_path):
    for split, responses in {"train": "aab", "test": "bcc"}.items():
        write_examples([Example(("x",), response) for response in responses], tmp_path / f"{split}-0.parquet")
    assert texts(tmp_path, "test") == ["b", "c"]
    assert texts(tmp_path, "train") == ["a", "b"]
    assert texts(tmp_path) == ["a", "b", "c"]
    assert texts(tmp_path / "test-0.parquet") == ["b", "c"]


def test_compressed_lines_are_read(tmp_path):
    content = b'{"text": "Hi"}\n'
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content, mtime=0))
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(content))
    assert texts(tmp_path / "a.jsonl.gz") == texts(tmp_path / "a.jsonl.zst") == ["Hi"]


@pytest.mark.parametrize(("name", "content", "told"), [
    ("a.txt", b"", "is empty"),
    ("a.txt", b"fine\n\xff\xfe", "a.txt:2: not UTF-8"),
    ("a.txt", b"fine\nbin\0ary", "a.txt:2: binary"),
    ("a.jsonl", b'{"text": "a"}\n{"text": ', "a.jsonl:2: not JSON"),
    ("a.jsonl", b'"Hello"\n', "a.jsonl:1: a JSON str.*object"),
    ("a.jsonl", b'{"text": 7}\n', "a.jsonl:1: text is 7"),
    ("a.jsonl", b'{"utterance": "a"}\n', "a.jsonl:1: no field text, response.*there is utterance"),
    ("a.jsonl", b'{"text": "\\ud83d"}\n', "a.jsonl:1: half of a surrogate"),
    ("a.jsonl", b"[" * 100_000, "a.jsonl:1: not JSON"),
    ("a.csv", b"id,text\n1,a\n2\n", "a.csv:3: .* columns, 2"),
    ("a.csv", b'id,text\n1,"a\n', "not CSV"),
    ("a.csv", b"id,what\n1,a\n", "a.csv: no column text, response.*there is id, what"),
    ("a.json", b"[]", "looks like JSON, but like no form of replies"),
    ("a.txt.gz", gzip.compress(b"Hello" * 999, mtime=0)[:-9], "cut off"),
    ("a.parquet", b"PAR1 nonsense", "a.parquet"),
])  # fmt: skip
def test_bad_input_is_one_clear_line(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=told) as refused:
        list(read_candidates(tmp_path / name))
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_split_of_a_plain_file(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_candidates(tmp_path / "nothing.txt")
    with pytest.raises(InputError, match="no test split"):
        read_candidates(write(tmp_path / "a.txt", "a"), "test")
