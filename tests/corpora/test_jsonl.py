"""The forms of JSON lines, and every way in which a line can be bad."""

from __future__ import annotations

import json

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.corpus import NoSettings
from rejoinder.corpora.example import Example, content_thread
from rejoinder.corpora.formats import read_jsonl
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.sources import CORPORA
from rejoinder.errors import InputError

MESSAGE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)


@pytest.fixture
def read(tmp_path):
    """Read records that are written to a file first, one a line."""

    def run(*records, reading=None):
        path = tmp_path / "chats.v2.jsonl"
        lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return list(read_jsonl(path, reading))

    return run


def pairs(examples):
    return [(example.context, example.response) for example in examples]


def data19(context, response):
    """The flat form: newest message, then the earlier ones numbered from the newest, in the order of their names."""
    extra = {f"context/{number}": text for number, text in enumerate(reversed(context[:-1]))}
    return dict(sorted({"context": context[-1], "response": response, **extra}.items()))


def test_a_pair(read):
    (example,) = read({"context": ["Hi!", "Hello."], "response": "How are you?"})
    assert example == Example(("Hi!", "Hello."), "How are you?", "chats.v2:1", content_thread(["Hi!"]), "chats.v2")


def test_names_of_the_line_are_kept(read):
    (example,) = read({"context": ["a"], "response": "b", "id": "i", "thread": "t", "source": "s"})
    assert (example.id, example.thread, example.source) == ("i", "t", "s")
    dialogue = read({"turns": ["a", "b", "c"], "id": "i", "thread": "t", "source": "s"})
    assert [(each.id, each.thread, each.source) for each in dialogue] == [("i:1", "t", "s"), ("i:2", "t", "s")]


@pytest.mark.parametrize("name", ["thread", "thread_id", "product_id", "file_id"])
def test_threads_of_known_corpora(read, name):
    assert [example.thread for example in read({"context": "a", "response": "b", name: "x"})] == ["x"]
    assert [example.thread for example in read({"context": "a", "response": "b", name: 17})] == ["17"]


def test_messages_that_nobody_said_are_left_out(read):
    record = {
        "messages": [
            {"role": "system", "content": "You are helpful."},
            {"role": "user", "content": "What time is it?"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": "12:00"},
            {"role": "assistant", "content": "Noon."},
        ]
    }
    assert pairs(read(record)) == [(("What time is it?",), "Noon.")]


def test_mistake_7_extra_contexts_go_by_number_and_authors_are_no_text(read):
    """`context/10` comes after `context/2`, and author fields are never text."""
    record = {"context": "newest", "response": "answer", "context_author": "ann", "response_author": "bob"}
    record |= {f"context/{number}": f"message {number}" for number in range(11)}
    record |= {f"context/{number}_author": "eve" for number in range(11)} | {"context/author": "eve", "subreddit": "x"}
    for order in (record, dict(sorted(record.items()))):
        (example,) = read(order, reading=Reading(history=20))
        assert example.context == (*(f"message {number}" for number in range(10, -1, -1)), "newest")
        (example,) = read(order)
        assert example.context == (*(f"message {number}" for number in range(9, -1, -1)), "newest")
        assert not {"ann", "bob", "eve", "x"} & {*example.context, example.response, example.thread}


@settings(max_examples=80, deadline=None)
@given(turns=st.lists(MESSAGE, min_size=2, max_size=14), history=st.integers(0, 12))
def test_all_forms_agree(tmp_path_factory, turns, history):
    path = tmp_path_factory.mktemp("forms") / "form.jsonl"
    cuts = range(1, len(turns))
    forms = {
        "turns": [{"turns": turns}],
        "messages": [{"messages": [{"role": "user", "content": turn} for turn in turns]}],
        "pairs": [{"context": turns[:cut], "response": turns[cut]} for cut in cuts],
        "data19": [data19(turns[:cut], turns[cut]) for cut in cuts],
        "from": [{"turns": turns[: cut + 1], "from": cut} for cut in cuts],
    }
    read = {}
    for form, records in forms.items():
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        read[form] = pairs(read_jsonl(path, Reading(history=history)))
    assert all(form == read["turns"] for form in read.values())
    assert [response for _, response in read["turns"]] == turns[1:]


def test_pairs_that_unfold_one_conversation_stay_together(read):
    turns = [f"turn {number}" for number in range(8)]
    examples = read(*({"context": turns[:cut], "response": turns[cut]} for cut in range(1, 8)))
    assert len({example.thread for example in examples}) == 1


def test_blank_messages_are_left_out_and_counted(read):
    reading = Reading()
    examples = read({"context": ["", "a", " \n"], "response": "b"}, {"turns": ["a", "", "b", "\t"]}, reading=reading)
    assert pairs(examples) == [(("a",), "b"), (("a",), "b")]
    assert reading.blank_messages == 4


def test_dialogues_without_a_reply_are_counted(read):
    reading = Reading()
    assert read({"turns": []}, {"turns": ["a"]}, {"turns": ["a", " "]}, {"messages": []}, reading=reading) == []
    assert reading.without_reply == 4


BAD = [
    ("Hello there", r"not JSON \(Expecting value"),
    ("[" * 100_000, "nested too deep"),
    ('{"turns": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
    ('{"x": ' + "9" * 5_000 + "}", "not JSON"),
    ([1, 2], "JSON, but a list; one object a line is read"),
    ({"text": "hi", "label": 1}, "the fields are text, label"),
    ({"turns": ["a", 7]}, r"turns\[1\] is 7; a text is read"),
    ({"turns": ["a", "b\ud800"]}, r"turns\[1\] holds half of a surrogate pair"),
    ({"turns": ["a", "b"], "from": 0}, "from is 0; it is the index of a turn, 1 to 2"),
    ({"turns": ["a", "b"], "id": 4}, "id is 4; a text is read"),
    ({"messages": ["a", "b"]}, r'messages\[0\] is "a"; an object with role and content is read'),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, r"messages\[0\]\.content is a list"),
    ({"context": ["a"]}, "context but no response; the fields are context"),
    ({"context": ["a"], "response": "  "}, "the response is blank"),
    ({"context": [], "response": "b"}, "the context is blank"),
    ({"context": " ", "context/0": "a", "response": "b"}, r"the newest message \(context\) is blank"),
    ({"context": ["a"], "response": "b", "label": 0}, "a label but no candidates"),
    ({"context": ["a"], "response": "b", "candidates": ["x", "y"]}, "the response is 0 times among the candidates"),
    ({"context": ["a"], "response": "x", "candidates": ["x", "x"]}, "the response is 2 times among the candidates"),
    ({"context": ["a"], "candidates": ["x"], "label": 1}, "label is 1; with 1 candidates it is 0 to 0"),
    ({"context": ["a"], "response": "x", "candidates": ["x", "y"], "label": 1}, "candidate 1, which label names"),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_a_bad_line_stops_with_file_line_and_reason_or_is_skipped(read, line, reason):
    good = {"turns": ["good", "line"]}
    with pytest.raises(InputError, match=rf"chats\.v2\.jsonl:3: .*{reason}") as error:
        read(good, "", line, good)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
    reading = Reading(skip_bad=True)
    assert len(read(good, "", line, good, reading=reading)) == 2
    assert (reading.lines, reading.bad_lines, len(reading.faults)) == (3, 1, 1)


def test_dialogues_is_the_same_reader_also_for_long_windows(tmp_path):
    """As published collections are compressed: zstd --long=27, frames of unknown size."""
    path = tmp_path / "set.jsonl.zst"
    lines = [{"id": "d", "source": "plays", "turns": ["a", "b", "c"]}, {"turns": ["a", "b", "d"], "from": 2}]
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    path.write_bytes(compressor.compress(data) + compressor.flush())
    examples = list(CORPORA["dialogues"].read(path, Reading(), NoSettings()))
    assert pairs(examples) == [(("a",), "b"), (("a", "b"), "c"), (("a", "b"), "d")]
    assert [example.source for example in examples] == ["plays", "plays", "set"]
    assert len({example.thread for example in examples}) == 1
