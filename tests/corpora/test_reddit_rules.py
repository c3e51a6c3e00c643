"""The rules for Reddit's comments, one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.reddit import LOST, RedditSettings, judge, trim
from rejoinder.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(("text", "limit", "short"), [
    ("Matthew Henderson", 7, "Matthew"),          # the three cases of DATA19's own tests
    ("Matthew Henderson", 9, "Matthew "),
    ("Matthew", 9, "Matthew"),
    ("one, two", 5, "one, "),
    ("one, two", 4, "one"),                       # between comma and space there is no boundary
    ("wait.....what", 6, "wait"),
    ("unbreakable", 5, ""),
    ("....", 2, ""),
    ("a bc", 1, "a"),
    ("na\u00efve caf\u00e9 society", 10, "na\u00efve caf\u00e9"),
    ("", 5, ""),
])  # fmt: skip
def test_trim(text, limit, short):
    assert trim(text, limit) == short


@given(TEXT, st.integers(1, 70))
def test_what_is_trimmed_is_a_beginning_that_ends_at_a_boundary(text, limit):
    short = trim(text, limit)
    assert text.startswith(short)
    assert len(short) <= limit
    assert trim(short, limit) == short
    if 0 < len(short) < len(text):
        assert text[len(short) - 1].isalnum() != text[len(short)].isalnum()


@given(TEXT, st.integers(1, 70), st.integers(0, 5))
def test_one_character_beyond_the_limit_is_all_that_trimming_looks_at(text, limit, more):
    assert trim(text[: limit + 1 + more], limit) == trim(text, limit)


@pytest.mark.parametrize(("author", "bot"), [
    ("AutoModerator", True), ("RemindMeBot", True), ("sneakpeek_BOT", True), ("gifvbot", True), ("alice", False),
    ("automoderator2", False), ("botanist", False), ("bot", True), ("", False), ("[deleted]", False),
])  # fmt: skip
def test_bots(author, bot):
    assert reason("Beep. I may be a bot.", author, drop_bots=True) == ("by a bot" if bot else "")


def reason(body, author="alice", **settings):
    (state,) = judge(pa.array([body], pa.large_string()), pa.array([author]), RedditSettings(**settings))
    return LOST.get(int(state), "")


@pytest.mark.parametrize(("body", "expected"), [
    ("12345678", "too short"),
    ("123456789", ""),
    ("x" * 127, ""),
    ("x" * 128, "too long"),
    ("\u00e9" * 127, ""),                          # characters, not bytes
    ("[deleted]", "deleted or removed"),
    ("[removed]", "deleted or removed"),
    ("[ Removed by Reddit ]", "deleted or removed"),
    (" [deleted]", ""),                            # only exactly that
    (" \n\u00a0\t      ", "nothing but white space"),
    ("&gt; quoted, [a link](http://example.org)", ""),
])  # fmt: skip
def test_lengths_in_characters(body, expected):
    assert reason(body) == expected


@pytest.mark.parametrize(("words", "expected"), [(8, "too short"), (9, ""), (127, ""), (128, "too long")])
def test_lengths_in_words(words, expected):
    assert reason(" ".join(["word"] * words), unit="words") == expected


def test_deleted_is_said_before_too_short():
    assert reason("[deleted]", unit="words") == "deleted or removed"


def test_bots_are_left_out_only_where_that_is_asked_for():
    assert reason("Beep. I am a bot.", "RemindMeBot") == ""
    assert reason("Beep. I am a bot.", "RemindMeBot", drop_bots=True) == "by a bot"


@pytest.mark.parametrize(("settings", "words"), [
    ({"unit": "bytes"}, "'bytes'; lengths are counted in characters or words"),
    ({"min_length": 0}, "lengths go from 1 up"),
    ({"min_length": 10, "max_length": 9}, "min_length is 10 and max_length 9"),
    ({"depth": 0}, "depth is 0"),
    ({"cut": 0}, "cut is 0"),
    ({"subreddits": ("r/pics",)}, "without r/"),
    ({"subreddits": ("",)}, "give names"),
])  # fmt: skip
def test_settings_are_checked(settings, words):
    with pytest.raises(InputError, match=words):
        RedditSettings(**settings)
