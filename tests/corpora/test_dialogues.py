"""From dialogues to examples, and the threads of dialogues that name none."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora import formats
from rejoinder.corpora.example import content_thread, split_of
from rejoinder.corpora.formats import Threads, dialogue_examples
from rejoinder.corpora.lines import Reading

TURNS = st.lists(st.sampled_from(["a", "b", "c", " ", "", "\n", "hello there"]), max_size=30)


def examples(turns, history=10, **options):
    reading = Reading(history=history)
    return list(dialogue_examples(turns, name="d", thread="t", source="s", reading=reading, **options))


def test_contexts_that_are_cut_are_counted():
    for history, count in ((0, 28), (2, 26), (28, 0), (None, 0)):
        reading = Reading(history=history)
        turns = [str(number) for number in range(30)]
        assert len(list(dialogue_examples(turns, name="d", thread="t", source="s", reading=reading))) == 29
        assert reading.cut_contexts == count


@settings(max_examples=150, deadline=None)
@given(TURNS, st.integers(1, 8), st.integers(0, 12))
def test_the_law_of_dialogues(turns, first, history):
    for example in examples(turns, first=first, history=history):
        index = int(example.id.removeprefix("d:"))
        assert index >= first
        assert turns[index] == example.response
        before = [turn for turn in turns[:index] if turn.strip()]
        assert list(example.context) == before[-1 - history :]
        assert example.context
    spoken = [index for index, turn in enumerate(turns) if turn.strip()]
    assert len(examples(turns, first=first)) == sum(index >= first for index in spoken[1:])


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
    monkeypatch.setattr(formats, "_REMEMBERED_ROOTS", 3)
    monkeypatch.setattr(formats, "_REMEMBERED_NEIGHBOURS", 3)
    threads = Threads()
    first = threads.find(["0", "a"], 1)
    threads.find(["1", "a"], 1)
    threads.find(["2", "a"], 1)
    assert threads.find(["0", "a", "b"], 2) == first  # asked for again, so it is remembered longer
    threads.find(["3", "a"], 1)
    assert threads.find(["0", "b"], 1) == first
    assert threads.find(["1", "a", "b"], 2) == content_thread(["1", "a", "b"])
    assert (len(threads._roots), len(threads._neighbours)) == (3, 3)


MESSAGES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=5)

# Computed with md5sum: the last three hexadecimal digits, plus one, over 4096.
GOLDEN = {
    "日本": "train",  # 2484
    "x6297": "train",  # 3604, the last of the training part
    "x2733": "valid",  # 3605, the first of the validation part
    "x9537": "valid",  # 3686, the last of the validation part
    "x2518": "test",  # 3687, the first of the test part
    "x1048": "test",  # 4096, the last
}


@pytest.mark.parametrize(("thread", "split"), GOLDEN.items())
def test_golden_values(thread, split):
    assert split_of(thread) == split


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
