"""Where a sentence ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.sentences import sentences


@pytest.mark.parametrize(
    "expected",
    [
        ["One."],
        ["One.", "Two!", "Three?", "Four"],
        ["She met Mr. Smith and J. S. Bach in the U.S. in 1833.", "He left."],
        ["It cost 3.50 dollars (approx. 3 euros).", "That was much."],
        ["“Why?” she asked.", "“No!”", "He went on."],
        ["It was ... a day.", "And then…", "Nothing."],
        ["Born c. 1850 (or earlier).", "(He said so.)", "“So what?”"],
        ["今日は。", "元気ですか？", "はい"],  # noqa: RUF001
        [],
    ],
)
def test_ends(expected):
    space = "" if "。" in "".join(expected) else " "
    assert sentences(space.join(expected)) == expected


@given(st.text(alphabet="aB.!? \u3002\"')", max_size=50))
def test_nothing_but_white_space_is_lost(paragraph):
    found = sentences(paragraph)
    assert "".join("".join(found).split()) == "".join(paragraph.split())
    assert all(sentence and sentence == sentence.strip() for sentence in found)


@pytest.mark.parametrize("part", [".", ".'", "a. ", "A. b", "。", '"', "A.B. ", "a"])
def test_a_megabyte_of_anything_takes_no_time(part):
    assert "".join(sentences(part * 2**18)).replace(" ", "") == (part * 2**18).replace(" ", "")
