"""Hashes of messages, and overlaps found by them, against sets of words in plain Python."""

import itertools
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.keys import words_of
from workshop.corpus import selection
from workshop.corpus.plan import Leaks
from workshop.corpus.selection import LeakIndex, TurnTable

TURNS = st.lists(
    st.lists(st.sampled_from("abcé"), max_size=6).map(" ".join), min_size=1, max_size=4
)
CORPUS = st.lists(TURNS, min_size=1, max_size=6)


def table_of(dialogues, gram):
    table = TurnTable(gram)
    with mock.patch.object(selection, "BLOCK_BYTES", 8):
        for turns in dialogues:
            table.add(turns, 1, 0)
    return table.close()


def grams(words, n):
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


@settings(max_examples=80)
@given(CORPUS, CORPUS)
def test_leaks_are_those_of_a_plain_search(evaluated, dialogues):
    limits = Leaks(fewest_words=4, gram=2, overlap=0.5, formula=10_000)
    watched, table = table_of(evaluated, 2), table_of(dialogues, 2)
    rows = np.flatnonzero(watched.pair)
    with mock.patch.object(selection, "_CHUNK", 3):
        found, equal = LeakIndex([(watched, rows, np.zeros(len(rows), np.int64))], 1, limits).find(
            table
        )
    pairs = [
        (words_of(turns[i - 1]), words_of(turns[i]))
        for turns in evaluated
        for i in range(1, len(turns))
    ]
    pairs = [pair for pair in pairs if len(pair[0] + pair[1]) >= 4]
    mine = [pair for turns in dialogues for pair in [("", ""), *itertools.pairwise(turns)]]
    for (before, response), leak, same in zip(mine, found >= 0, equal, strict=True):
        words = words_of(before), words_of(response)
        assert same == (words in pairs)
        own = set(grams(words[0] + words[1], 2))
        overlaps = [
            len(own & other) / len(own | other)
            for other in (set(grams(a + b, 2)) for a, b in pairs)
        ]
        if len(words[0] + words[1]) < 4 or max(overlaps, default=0) < 0.5:
            assert leak == same
        elif len(own) == len(words[0] + words[1]) - 1:  # no shingle twice: the quick test is exact
            assert leak
