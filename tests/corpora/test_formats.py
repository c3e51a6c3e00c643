"""JSON lines, CSV and dialogues: their forms, the threads of those that name none, every way to be bad."""

import csv
import hashlib
import io
import json
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora import dialogues
from rejoinder.conversations import spoken
from rejoinder.corpora.dialogues import Threads, dialogue_examples
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread, split_of
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.forms.formats import ChatSettings, read_jsonl
from rejoinder.corpora.forms.csv_pairs import read_csv
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.sources import CORPORA
from rejoinder.errors import InputError

MESSAGE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)


@pytest.fixture
def read(tmp_path):
    """Read records that are written to a file first, one a line."""

    def run(*records, reading=None, settings=None):
        path = tmp_path / "chats.v2.jsonl"
        lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return list(read_jsonl(path, reading, settings))

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
    named = {"id": "i", "thread": "t", "source": "s"}
    found = read({"context": ["a"], "response": "b", **named}, {"turns": ["a", "b", "c"], **named})
    assert [each.id for each in found] == ["i", "i:1", "i:2"]
    assert {(each.thread, each.source) for each in found} == {("t", "s")}


def test_an_id_may_be_a_number(read):
    found = read(*({"context": ["a"], "response": "b", "id": number} for number in (0, 1, 7)))
    assert [example.id for example in found] == ["0", "1", "7"]


@pytest.mark.parametrize("name", ["thread", "thread_id", "product_id", "file_id"])
def test_threads_of_known_corpora(read, name):
    found = read(*({"context": "a", "response": "b", name: thread} for thread in ("x", 17)))
    assert [example.thread for example in found] == ["x", "17"]


@pytest.mark.parametrize(("respond", "responses"), [
    ("assistant", ["b c", "f"]), ("user", ["d"]), ("agent,user", ["d", "e"]), (" assistant, agent ", ["b c", "e", "f"]),
    ("any", ["b c", "d", "e", "f"]), ("nobody", []),
])  # fmt: skip
def test_responses_are_those_of_a_role_and_what_it_says_at_once_is_one_turn(read, respond, responses):
    said = ["user a", "assistant b", "assistant c", "user  ", "user d", "agent e", "assistant f"]
    messages = [dict(zip(("role", "content"), each.split(" ", 1), strict=True)) for each in said]
    reading = Reading()
    found = pairs(read({"messages": messages}, reading=reading, settings=ChatSettings(respond=respond)))
    turns = ("a", "b c", "d", "e", "f")
    assert found == [(turns[: turns.index(response)], response) for response in responses]
    assert (reading.roles, reading.blank_messages) == ({"user": 3, "assistant": 3, "agent": 1}, 1)
    assert reading.without_reply == (not responses)


def test_a_file_without_the_role_says_which_it_has(tmp_path):
    path = tmp_path / "chats.jsonl"
    messages = [{"role": "customer", "content": "a"}, {"role": "agent", "content": "b"}]
    path.write_text(json.dumps({"messages": messages}))
    with pytest.raises(InputError, match=r"no message of assistant .*customer \(1\), agent \(1\).*--set respond=ROLE"):
        list(read_examples(path))
    for respond in ("", "agent,"):
        with pytest.raises(InputError, match="give a role, several"):
            ChatSettings(respond=respond)


@pytest.mark.parametrize("role", ["System", "SYSTEM", "Developer"])
def test_messages_that_nobody_said_are_known_in_any_case(read, role):
    roles = (role, "user", "assistant")
    messages = [{"role": each, "content": text} for each, text in zip(roles, "abc", strict=True)]
    assert pairs(read({"messages": messages})) == [(("b",), "c")]
    assert spoken(messages) == [("user", "b"), ("assistant", "c")]


def test_messages_that_nobody_said_are_left_out_and_counted(read):
    messages = [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "12:00"},
        {"role": "assistant", "content": "Noon."},
    ]
    reading = Reading()
    assert pairs(read({"messages": messages}, reading=reading)) == [(("What time is it?",), "Noon.")]
    assert reading.roles == {"system": 1, "user": 1, "tool": 2, "assistant": 1}


def test_content_in_parts_is_read_as_its_texts(read):
    parts = [{"type": "text", "text": "What time"}, {"type": "text", "text": "is it?"}]
    call = {"role": "assistant", "content": "", "function_call": {"name": "time"}}
    messages = [{"role": "user", "content": parts}, call, {"role": "assistant", "content": "Noon."}]
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    reading = Reading()
    assert pairs(read({"messages": [picture, *messages]}, reading=reading)) == [(("What time\nis it?",), "Noon.")]
    assert reading.blank_messages == 1


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


@settings(max_examples=80)
@given(turns=st.lists(MESSAGE, min_size=2, max_size=14), history=st.integers(0, 12))
def test_all_forms_agree(tmp_path_factory, turns, history):
    path = tmp_path_factory.mktemp("forms") / "form.jsonl"
    cuts = range(1, len(turns))
    forms = [
        [{"turns": turns}],
        [{"messages": [{"role": "ab"[place % 2], "content": turn} for place, turn in enumerate(turns)]}],
        [{"context": turns[:cut], "response": turns[cut]} for cut in cuts],
        [data19(turns[:cut], turns[cut]) for cut in cuts],
        [{"turns": turns[: cut + 1], "from": cut} for cut in cuts],
    ]
    read = []
    for records in forms:
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        examples = list(read_jsonl(path, Reading(history=history), ChatSettings(respond="any")))
        assert len({example.thread for example in examples}) == 1  # a conversation stays together, however it is given
        read.append(pairs(examples))
    assert all(form == read[0] for form in read)
    assert [response for _, response in read[0]] == turns[1:]


def test_blank_messages_and_dialogues_without_a_reply_are_left_out_and_counted(read):
    reading = Reading()
    examples = read({"context": ["", "a", " \n"], "response": "b"}, {"turns": ["a", "", "b", "\t"]}, reading=reading)
    assert pairs(examples) == [(("a",), "b"), (("a",), "b")]
    assert reading.blank_messages == 4
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
    ({"turns": ["a", "b"], "id": 4.5}, "id is 4.5; a text is read"),
    ({"messages": ["a", "b"]}, r'messages\[0\] is "a"; an object with role and content is read'),
    ({"messages": [{"role": "user", "content": {"type": "text"}}]}, r"messages\[0\]\.content is an object"),
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
    examples = list(CORPORA["dialogues"].read(path, Reading(), CORPORA["dialogues"].settings()))
    assert pairs(examples) == [(("a",), "b"), (("a", "b"), "c"), (("a", "b"), "d")]
    assert [example.source for example in examples] == ["plays", "plays", "set"]
    assert len({example.thread for example in examples}) == 1


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")
CELL = st.text(CHARACTERS, min_size=1, max_size=12).filter(str.strip)
HEADERS = ["", "Question, Answer\r\n", "\ufeffcontext,response\n", "\n\ncontext,response\n"]


@pytest.fixture
def read_rows(tmp_path):
    def run(text, reading=None):
        path = tmp_path / "faq.csv"
        path.write_text(text, encoding="utf-8", newline="")
        return list(read_csv(path, reading))

    return run


@pytest.mark.parametrize("header", HEADERS, ids=repr)
def test_the_header_is_optional(read_rows, header):
    found = pairs(read_rows(header + "Where is it?,There.\nWhen?,Now.\n"))
    assert found == [(("Where is it?",), "There."), (("When?",), "Now.")]


def test_the_header_says_which_column_is_which(read_rows):
    text = "id,Answer,notes,question,thread\n7,There.,secret,Where?,t1\n"
    (example,) = read_rows(text)
    assert (example.context, example.response, example.id, example.thread) == (("Where?",), "There.", "7", "t1")
    assert example.source == "faq"


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8))
def test_what_the_csv_module_writes_is_read(tmp_path_factory, rows):
    text = io.StringIO()
    csv.writer(text).writerows([("context", "response"), *rows])
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    assert pairs(read_csv(path)) == [((context,), response) for context, response in rows]


@pytest.mark.parametrize(("line", "reason"), [
    ("a,b,c", r"3 columns instead of 2 \(context, response\); put texts that contain the delimiter in double quotes"),
    ("a", "1 columns instead of 2"),
    ("a, ", "the response is blank"),
    (",b", "the context is blank"),
    ('a,"b"c', "not CSV .*; write a double quote within quotes twice"),
])  # fmt: skip
def test_a_bad_row_stops_with_its_place_or_is_skipped(read_rows, line, reason):
    with pytest.raises(InputError, match=rf"faq\.csv:2: {reason}"):
        read_rows(f"good,row\n{line}\ngood,row\n")
    reading = Reading(skip_bad=True)
    assert len(read_rows(f"good,row\n{line}\ngood,row\n", reading)) == 2
    assert (reading.lines, reading.bad_lines) == (3, 1)


ROWS_OF_BAD_CELLS = [  # a bad row, and its lines
    (['"how "are" you', 'fine?",so'], 2),
    (['a,"how "are" you', "", "or fine?", 'and ""so"" on"'], 4),
    (['"how "are" you', 'fine?","so', 'and on"'], 3),
    (['a,"5" pipe"'], 1),
    (['a,"5" pipe"', ""], 1),
]


@pytest.mark.parametrize(("bad", "count"), ROWS_OF_BAD_CELLS, ids=str)
@pytest.mark.parametrize("after", ["Why?,Because.", 'Why?,"Because."', '"Why?","Be\ncause."', 'Why?,"5"" long"'])
def test_the_lines_of_a_bad_cell_are_skipped_with_it(read_rows, bad, count, after):
    reading = Reading(skip_bad=True)
    rows = [f"{after}\n", *([] if count > 1 else ["When?,Now.\n"] * 2)]
    text = "Where?,There.\n" + "".join(f"{line}\n" for line in bad) + "".join(rows)
    found = [question for (question,), _ in pairs(read_rows(text, reading))]
    assert found == ["Where?", "Why?", *["When?"] * (len(rows) - 1)]
    assert (reading.bad_lines, reading.lines) == (count, count + len(found))
    assert reading.faults[0].startswith(f"{reading.faults[0].partition(':')[0]}:2: not CSV")


def test_a_bad_row_of_a_table_with_semicolons_is_not_explained_by_commas(read_rows):
    fault = r"faq\.csv:2: 3 columns instead of 2 \(context, response\); put texts that contain the delimiter in double quotes"
    with pytest.raises(InputError, match=fault):
        read_rows("Where is it?;On its way.\nHow, or when?;Soon; today.\nWhy?;It rained.\n")


def test_the_line_of_a_row_is_that_of_its_beginning(read_rows):
    with pytest.raises(InputError, match=r"faq\.csv:5: 3 columns"):
        read_rows('a,"b\n\nc"\n\nx,y,"z\n\n"\n')


def test_blank_rows_are_skipped_and_a_header_is_said(read_rows):
    reading = Reading()
    assert len(read_rows("Question,Answer\na,b\n\n,\n  ,\nc,d\n", reading)) == 2
    assert (reading.lines, reading.bad_lines, len(reading.notes)) == (2, 0, 1)
    assert reading.notes[0].endswith("faq.csv:1: a header, not an example: Question, Answer")
    read_rows("a,b\n", reading)
    assert len(reading.notes) == 1


def test_a_message_of_a_million_characters(read_rows):
    (example,) = read_rows(f"{'x' * 1_000_000},{'y' * 1_000_000}\n")
    assert len(example.context[0]) == len(example.response) == 1_000_000


TURNS = st.lists(st.sampled_from(["a", "b", "c", " ", "", "\n", "hello there"]), max_size=30)


def examples_of(turns, history=10, **options):
    reading = Reading(history=history)
    return list(dialogue_examples(turns, name="d", thread="t", source="s", reading=reading, **options))


@settings(max_examples=150)
@given(TURNS, st.integers(1, 8), st.integers(0, 12))
def test_the_law_of_dialogues(turns, first, history):
    for example in examples_of(turns, first=first, history=history):
        index = int(example.id.removeprefix("d:"))
        assert index >= first
        assert turns[index] == example.response
        before = [turn for turn in turns[:index] if turn.strip()]
        assert list(example.context) == before[-1 - history :]
        assert example.context
    spoken = [index for index, turn in enumerate(turns) if turn.strip()]
    assert len(examples_of(turns, first=first)) == sum(index >= first for index in spoken[1:])


def test_branches_of_a_reply_tree_are_one_thread():
    threads = Threads()
    root = threads.find(["q", "a", "b"], 1)
    assert threads.find(["q", "a", "c"], 2) == root
    assert threads.find(["other", "a"], 1) == content_thread(["other", "a"])
    assert threads.find(["q", "d"], 1) == root
    assert threads.find(["q", "a", "b", "e"], 3) == root


def test_a_branch_whose_first_turns_are_cut_off_finds_its_tree():
    threads = Threads()
    root = threads.find(["1", "2", "3", "4", "5"], 1)
    assert threads.find(["3", "4", "x", "y"], 2) == root
    assert threads.find(["4", "x", "z"], 2) == root
    assert threads.find(["4", "5", "again"], 1) == root  # by its first turn, which began a branch of the tree


def test_what_is_remembered_of_trees_is_bounded(monkeypatch):
    monkeypatch.setattr(dialogues, "_REMEMBERED_ROOTS", 3)
    monkeypatch.setattr(dialogues, "_REMEMBERED_NEIGHBOURS", 3)
    threads = Threads()
    first = threads.find(["0", "a"], 1)
    threads.find(["1", "a"], 1)
    threads.find(["2", "a"], 1)
    assert threads.find(["0", "a", "b"], 2) == first  # asked for again, so it is remembered longer
    threads.find(["3", "a"], 1)
    assert threads.find(["0", "b"], 1) == first
    assert threads.find(["1", "a", "b"], 2) == content_thread(["1", "a", "b"])
    assert (len(threads._roots), len(threads._neighbours)) == (3, 3)


# Computed with md5sum: the last three hexadecimal digits, plus one, over 4096.
GOLDEN = {
    "日本": "train",  # 2484
    "x6297": "train",  # 3604, the last of the training part
    "x2733": "valid",  # 3605, the first of the validation part
    "x9537": "valid",  # 3686, the last of the validation part
    "x2518": "test",  # 3687, the first of the test part
    "x1048": "test",  # 4096, the last
}


def test_golden_values():
    assert {thread: split_of(thread) for thread in GOLDEN} == GOLDEN


@settings(max_examples=100)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_test_part_is_that_of_the_published_rule(thread):
    published = (1 + int(hashlib.md5(thread.encode()).hexdigest(), 16) % 4096) / 4096
    assert (split_of(thread) == "test") == (published >= 0.9)


def test_the_content_thread_is_documented_precisely():
    by_hand = hashlib.md5(b"Hello there\nhow are you?").hexdigest()
    assert content_thread([" Hello \t there", "\n", "", "how are you?\n"]) == by_hand


def test_the_memory_of_a_long_conversation_does_not_grow_with_its_square(tmp_path):
    path, peaks = tmp_path / "long.jsonl", []
    for count in (1000, 4000):
        path.write_text(json.dumps({"turns": ["a"] * count}) + "\n")
        tracemalloc.start()
        read = sum(len(example.context) for example in read_jsonl(path, Reading(history=None)))
        assert read == sum(min(length, 1001) for length in range(1, count))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 8 * peaks[0]
