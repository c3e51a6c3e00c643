"""A model that gives another number of rows than texts is refused before anything is written."""

import numpy as np
import pytest

from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from tests.retrieval.conftest import HashEncoder

TEXTS = [f"reply {i}" for i in range(9)]


def one_less(rows):
    return rows[:-1]


def one_more(rows):
    return np.concatenate([rows, rows[:1]])


def none(rows):
    return rows[:0]


def flat(rows):
    return rows[0]


def stacked(rows):
    return rows[:, None]


def words(rows):
    return [["a"] * rows.shape[1]] * len(rows)


def ragged(rows):
    return [list(row)[: i + 1] for i, row in enumerate(rows)]


def objects(rows):
    return np.full(rows.shape, None)


def complex_numbers(rows):
    return rows * 1j


def not_finite(rows):
    return np.where(np.arange(len(rows))[:, None] == 1, np.nan, rows)


def empty(rows):
    return rows[:, :0]


def other_size(rows):
    return rows[:, :-1] / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)


def one(_rows):
    return 1.0


def nothing(_rows):
    return None


WRONG = [one_less, one_more, none, flat, stacked, words, ragged, objects, complex_numbers, not_finite, empty, one,
         nothing]  # fmt: skip


class Faulty(HashEncoder):
    """Gives wrong rows for some texts from `first` on."""

    wrong = staticmethod(lambda rows: rows)

    def encode_responses(self, responses):
        return self.wrong(super().encode_responses(responses))


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("wrong", [*WRONG, other_size])
@pytest.mark.parametrize("batch", [4, 100])
def test_an_addition_of_a_faulty_model_leaves_the_index_as_it_was(tmp_path, wrong, batch):
    encoder = Faulty()
    index = Index.build(encoder, TEXTS, tmp_path / "index")
    before = files(index.folder)
    encoder.wrong = wrong
    with pytest.raises(InputError, match=r"the model|vectors of size") as refused:
        index.add(["new", "newer", "newest", "last", "very last"], batch=batch)
    assert "\n" not in str(refused.value)
    assert files(index.folder) == before
    encoder.wrong = Faulty.wrong
    assert index.add(["new"]) == range(9, 10)
    assert len(Index.open(index.store, encoder)) == 10


@pytest.mark.folder
@pytest.mark.parametrize("wrong", WRONG)
def test_nothing_is_built_or_encoded_anew_by_a_faulty_model(tmp_path, wrong):
    encoder = Faulty()
    index = Index.build(encoder, TEXTS, tmp_path / "index")
    encoder.wrong = wrong
    for write in (index.reencode, lambda encoder, folder: Index.build(encoder, TEXTS, folder)):
        with pytest.raises(InputError, match="the model"):
            write(encoder, tmp_path / "new")
        assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("wrong", [each for each in WRONG if each is not stacked])
def test_a_search_with_wrong_queries_is_refused(tmp_path, wrong):
    encoder = Faulty()
    index = Index.build(encoder, TEXTS, tmp_path / "index")
    encoder.wrong = wrong
    with pytest.raises(InputError, match=r"the model|queries of size|no vector"):
        index.search([["reply 3"], ["reply 4"]])


def test_sizes_of_batches_agree(tmp_path):
    encoder = Faulty()
    encoder.wrong = lambda rows: rows if len(rows) == 4 else other_size(rows)
    with pytest.raises(InputError, match="vectors of size 23; those of the index have 24"):
        Index.build(encoder, TEXTS, tmp_path / "new", batch=4)
    assert list(tmp_path.iterdir()) == []
