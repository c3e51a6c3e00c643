"""The split is a fixed function of the thread: the same on every machine, for ever."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.example import content_thread, split_of

MESSAGES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=5)

# Computed with md5sum: the last three hexadecimal digits, plus one, over 4096.
GOLDEN = {
    "alice": "train",  # 1597
    "t3_5yba3": "train",  # 2285
    "": "train",  # 639
    "日本": "train",  # 2484
    "x6297": "train",  # 3604, the last of the training part
    "x2733": "valid",  # 3605, the first of the validation part
    "x9537": "valid",  # 3686, the last of the validation part
    "x2518": "test",  # 3687, the first of the test part
    "13": "test",  # 3898
    "x1048": "test",  # 4096, the last
}


@pytest.mark.parametrize(("thread", "split"), GOLDEN.items())
def test_golden_values(thread, split):
    assert split_of(thread) == split


def test_shares():
    parts = [split_of(f"thread {number}") for number in range(20_000)]
    assert parts.count("train") / 20_000 == pytest.approx(0.88, abs=0.01)
    assert parts.count("valid") / 20_000 == pytest.approx(0.02, abs=0.004)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_test_part_is_that_of_the_published_rule(thread):
    published = (1 + int(hashlib.md5(thread.encode()).hexdigest(), 16) % 4096) / 4096
    assert (split_of(thread) == "test") == (published >= 0.9)


def test_the_content_thread_is_documented_precisely():
    by_hand = hashlib.md5(b"Hello there\nhow are you?").hexdigest()
    assert content_thread([" Hello \t there", "\n", "", "how are you?\n"]) == by_hand


@settings(max_examples=100, deadline=None)
@given(MESSAGES)
def test_white_space_and_blank_messages_do_not_change_the_content_thread(messages):
    spaced = ["", *(f" {'  '.join(message.split())}\n" for message in messages), " \t"]
    assert content_thread(spaced) == content_thread(messages)


def test_another_conversation_is_another_thread():
    assert len({content_thread(turns) for turns in (["a", "b"], ["a b"], ["b", "a"], ["a"], [])}) == 5
