"""Hashes of blocks, and overlaps found by them, against sets of words in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.pretraining.leaks import LeakIndex, TurnTable, Watched
from rejoinder.corpora.pretraining.plan import Leaks
from rejoinder.corpora.splits import words_of

TURNS = st.lists(st.lists(st.sampled_from("abcé"), max_size=6).map(" ".join), min_size=1, max_size=4)
CORPUS = st.lists(TURNS, min_size=1, max_size=6)


def table_of(dialogues):
    table = TurnTable()
    for turns in dialogues:
        table.add(turns, 1, 0)
    return table.close()


def grams(words, n):
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


@settings(max_examples=60, deadline=None)
@given(CORPUS, st.integers(1, 3))
def test_equal_words_have_equal_hashes_and_no_others(dialogues, n):
    table = table_of(dialogues)
    named = {}
    for block in table.blocks(n, size=8):
        texts = [words_of(turn) for turns in dialogues for turn in turns][block.low : block.high]
        rows = np.arange(block.low, block.high)
        begin, count = block.spans(rows, 0)
        for text, first, number, key in zip(texts, begin, count, block.texts, strict=True):
            assert named.setdefault(("text", tuple(text)), key) == key
            found = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
            assert number == len(found)
            for gram, value in zip(found, block.grams[first : first + number], strict=True):
                assert named.setdefault(("gram", gram), value) == value
    for kind in ("text", "gram"):
        values = [int(value) for (what, _), value in named.items() if what == kind]
        assert len(set(values)) == len(values)


@settings(max_examples=80, deadline=None)
@given(CORPUS, CORPUS)
def test_leaks_are_those_of_a_plain_search(evaluated, dialogues):
    leaks = Leaks(fewest_words=4, gram=2, overlap=0.5, formula=10_000)
    watched, table = table_of(evaluated), table_of(dialogues)
    rows = np.flatnonzero(watched.pair)
    index = LeakIndex([Watched(watched, rows, np.zeros(len(rows), np.int64))], 1, leaks)
    pairs = [(words_of(turns[i - 1]), words_of(turns[i])) for turns in evaluated for i in range(1, len(turns))]
    pairs = [pair for pair in pairs if len(pair[0] + pair[1]) >= 4]
    mine = [(turns[i - 1], turns[i]) for turns in dialogues for i in range(1, len(turns))]
    place = 0
    for block in table.blocks(2, size=16):
        rows = block.low + np.flatnonzero(table.pair[block.low : block.high])
        texts, place = mine[place : place + len(rows)], place + len(rows)
        long = table.pair_words[rows] >= 4
        found, equal = index.find(block, rows[long])
        for (before, response), leak, same in zip(
            (pair for pair, keep in zip(texts, long, strict=True) if keep), found >= 0, equal, strict=True
        ):
            words = words_of(before), words_of(response)
            assert same == (words in pairs)
            own = grams(words[0] + words[1], 2)
            overlaps = [len(own & other) / len(own | other) for other in (grams(a + b, 2) for a, b in pairs)]
            if max(overlaps, default=0) < 0.5:
                assert leak == same
            elif len(own) == len(words[0] + words[1]) - 1:  # no shingle twice: the quick test is exact
                assert leak
