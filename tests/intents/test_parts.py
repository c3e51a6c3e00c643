"""Texts cut into parts by intent."""

import pytest

from rejoinder.corpora.keys import text_key
from rejoinder.errors import InputError
from rejoinder.intents.data import IntentData
from rejoinder.intents.reading.texts import read_intents
from rejoinder.intents.parts import cut, write_parts


def test_texts_are_cut_into_parts_by_intent(tmp_path):
    data = IntentData(tuple(f"text {n}" for n in range(60)), tuple(("ab"[n % 2],) for n in range(60)))
    parts = cut(data, (0.8, 0.1, 0.1))
    assert [len(part) for part in parts] == [48, 6, 6]
    assert [sum(labels == ("a",) for labels in part.labels) for part in parts] == [24, 3, 3]
    assert sorted(text for part in parts for text in part.texts) == sorted(data.texts)
    assert cut(data, (0.8, 0.1, 0.1)) == parts != cut(data, (0.8, 0.1, 0.1), seed=1)
    write_parts(parts, tmp_path / "parts")
    assert read_intents(tmp_path / "parts", "valid") == parts[1]
    for shares in ((0.8, 0.1), (0.9, 0.2, 0.1), (1.1, -0.1, 0.0)):
        with pytest.raises(InputError, match="three that add up to 1"):
            cut(data, shares)


def labelled(*counts):
    """That many texts of each of as many intents."""
    rows = [(f"text {n} of {name}", (name,)) for name, count in zip("abcdefghij", counts, strict=False) for n in range(count)]
    return IntentData(*map(tuple, zip(*rows, strict=True)))


@pytest.mark.parametrize(
    ("counts", "sizes"),
    [((6, 6, 6, 6), [19, 2, 3]), ((2, 2), [3, 0, 1]), ((2,) * 10, [16, 2, 2]), ((1, 1, 9), [9, 1, 1]), ((1,) * 10, [10, 0, 0])],
)
def test_small_intents_fill_small_parts_together(counts, sizes):
    data = labelled(*counts)
    for seed in range(3):
        parts = cut(data, (0.8, 0.1, 0.1), seed)
        assert [len(part) for part in parts] == sizes
        assert parts[0].names == data.names
        assert sorted(text for part in parts for text in part.texts) == sorted(data.texts)


def test_equal_texts_are_in_one_part():
    copies = ("Where is my card?", "where is MY card", "Where's it?")
    texts = labelled(10, 10)
    data = IntentData((*texts.texts, *copies * 4), (*texts.labels, *(("a",), ("b",), ("c",)) * 4))
    for seed in range(8):
        parts = cut(data, (0.5, 0.25, 0.25), seed)
        assert sum(len(part) for part in parts) == len(data)
        assert parts[0].names == data.names
        keys = [{text_key(text) for text in part.texts} for part in parts]
        assert sum(map(len, keys)) == len(set.union(*keys))


def test_a_share_of_nothing_has_no_texts(tmp_path):
    parts = cut(labelled(5, 5), (0.0, 0.5, 0.5))
    assert [len(part) for part in parts] == [0, 5, 5]
    write_parts(parts, tmp_path / "parts")
    assert not (tmp_path / "parts" / "train.csv").exists()
