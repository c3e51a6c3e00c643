"""AmazonQA: both shapes of its lines, its filters, every way in which a line can be bad, the real files."""

import gzip
import os
from pathlib import Path

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.pairs.amazon_qa import fault_of_answer, read_amazon_qa
from rejoinder.errors import InputError

SINGLE = {
    "questionType": "yes/no", "asin": "B000", "answerTime": "Nov 4, 2014", "unixTime": 1415088000,
    "question": "Will it work with Windows?", "answerType": "Y", "answer": "Yes, it works\twith all of them.",
}  # fmt: skip
MULTIPLE = {"asin": "B001", "questions": [
    {"questionType": "open-ended", "questionText": "How long is the cable?", "answers": [
        {"answerText": "Two metres, I think.", "helpful": [2, 2]},
        {"answerText": "About six feet long.", "helpful": [0, 1]},
        {"answerText": "Long", "helpful": [0, 1]},
    ]},
    {"questionText": "Why?", "answers": [{"answerText": "Because it is so."}, {"answerText": "No idea at all."}]},
    {"questionText": "Is nobody going to answer?", "answers": []},
]}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    def run(*lines, reading=None):
        path = tmp_path / "qa_Toys.json.gz"
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
        return list(read_amazon_qa(path, reading or Reading()))

    return run


def test_a_line_with_a_products_questions(read):
    reading = Reading()
    examples = read(SINGLE, "", MULTIPLE, reading=reading)[1:]
    assert [(example.context, example.response, example.id, example.thread) for example in examples] == [
        (("How long is the cable?",), "Two metres, I think.", "qa_Toys:3:0", "B001"),
        (("How long is the cable?",), "About six feet long.", "qa_Toys:3:1", "B001"),
    ]
    assert reading.lines == 2
    assert reading.dropped == {
        "pairs whose answer has fewer than 4 or more than 59 words": 1,
        "pairs whose question has fewer than 4 or more than 59 words": 2,
    }


@pytest.mark.parametrize(
    ("text", "fits"),
    [("a b c d", True), ("a b c", False), (" ".join("a" * 59), True), (" ".join("a" * 60), False), ("a  b c", True)],
)
def test_words_are_what_single_spaces_separate(text, fits):
    """As the published code counts them, so that the published counts come out."""
    assert (fault_of_answer(text, "one two three four") == "") == fits
    assert (fault_of_answer("one two three four", text) == "") == fits


def test_blank_texts_have_words_but_are_left_out(read):
    reading = Reading()
    assert not read({**SINGLE, "answer": "    "}, {**SINGLE, "question": "     "}, reading=reading)
    assert reading.dropped == {"pairs with a blank answer": 1, "pairs with a blank question": 1}


@pytest.mark.parametrize(("line", "message"), [
    ('{"asin": true}', "no Python dictionary ("),
    ("{'a': '\\q'}", "no Python dictionary ("),
    ({"asin": "x", "question": "a\ud800", "answer": "b"}, "question holds half of a surrogate pair"),
    ("[1]", "a list; AmazonQA's lines are Python dictionaries"),
    ({"question": "a", "answer": "b"}, "no asin (a text); there is question, answer"),
    ({"asin": ""}, "asin is empty"),
    ({"asin": "x", "question": 5, "answer": "b"}, "no question (a text)"),
    ({"asin": "x", "questions": [{"questionText": "a", "answers": [None]}]}, "no answerText (a text)"),
    ("__import__('os')._exit(3)", "no Python dictionary (malformed node"),
    ("{'asin': " * 10_000, "no Python dictionary (too many nested parentheses"),
])  # fmt: skip
def test_bad_lines_are_named_and_can_be_skipped(read, line, message):
    with pytest.raises(InputError) as error:
        read(SINGLE, line)
    assert "qa_Toys.json.gz:2: " in str(error.value)
    assert message in str(error.value)
    assert len(str(error.value)) < 400
    reading = Reading(skip_bad=True)
    assert len(read(SINGLE, line, SINGLE, reading=reading)) == 2
    assert (reading.lines, reading.bad_lines) == (3, 1)


@pytest.mark.parametrize("part", ["[", "{'a':", "-", "1+", "a.", "[-1,", "9", "'\\x4", "(", "lambda:", "not "])
def test_no_line_can_exhaust_the_parser(read, part):
    reading = Reading(skip_bad=True)
    assert read(part * (2**18 // len(part)), SINGLE, reading=reading) == read(SINGLE, SINGLE)[1:]
    assert reading.bad_lines == 1


def test_what_python_2_wrote_is_read(read):
    (example,) = read("{u'asin': 'x', u'question': u'Is it \\u2019 or \\ud83d\\ude00 ?', 'answer': u'It is, I think'}")
    assert example.context == ("Is it \u2019 or \U0001f600 ?",)


# Answers, pairs of the right lengths, and distinct ones: the last two counted with the rules of DATA19's code.
COUNTS = {
    "qa_Appliances": (9_011, 6_819, 6_705),
    "qa_Video_Games": (13_307, 9_783, 7_258),
    "QA_Video_Games": (28_893, 20_971, 20_713),
}


@pytest.mark.data
@pytest.mark.skipif("REJOINDER_DATA" not in os.environ, reason="REJOINDER_DATA is not set")
@pytest.mark.parametrize("name", COUNTS)
def test_the_real_files(name):
    reading = Reading()
    path = Path(os.environ["REJOINDER_DATA"]) / "eval" / "amazonqa" / f"{name}.json.gz"
    examples = list(read_amazon_qa(path, reading))
    distinct = {(example.context, example.response) for example in examples}
    assert (len(examples) + sum(reading.dropped.values()), len(examples), len(distinct)) == COUNTS[name]
    assert reading.bad_lines == 0
