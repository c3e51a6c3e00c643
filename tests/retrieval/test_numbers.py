"""A number that is none, or none of those allowed, is one line of error wherever a search takes one."""

import math

import numpy as np
import pytest

from rejoinder.encoders.persistence import load
from rejoinder.errors import InputError
from rejoinder.retrieval.calibration import CalibratedIndex, calibrate
from rejoinder.retrieval.encoding.confidence import Calibration
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.cascade import Cascade
from tests.retrieval.conftest import HashEncoder

TEXTS = [f"reply {i}" for i in range(12)]
NO_COUNTS = [True, False, np.True_, 1.5, math.nan, "3", -1]
NO_NUMBERS = [True, np.True_, math.nan, math.inf, -math.inf, np.float32("nan"), "0.5", 1j]
COUNTS = ["k", "history"]
NUMBERS = ["minimum_score", "diversity", "hybrid"]


class Longest(HashEncoder):
    def score(self, contexts, candidates):  # noqa: ARG002
        return np.array([[len(text) for text in texts] for texts in candidates], dtype=np.float32)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return Index.build(HashEncoder(), TEXTS, tmp_path_factory.mktemp("numbers") / "index")


def refused(name, call):
    with pytest.raises(InputError, match=f"^{name} is ") as error:
        call()
    assert "\n" not in str(error.value)


CASES = [(name, value) for name in COUNTS for value in NO_COUNTS]
CASES += [(name, value) for name in NUMBERS for value in NO_NUMBERS]


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_search_refuses_what_is_no_number(index, name, value):
    refused(name, lambda: index.search([["reply 3"]], **{name: value}))
    if name != "diversity":
        cascade = Cascade(index, Longest(), 5)
        refused(name, lambda: cascade.search([["reply 3"]], **{name: value}))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_search_refuses_what_no_float_holds(index, name):
    refused(name, lambda: index.search([["reply 3"]], **{name: 10**400}))


@pytest.mark.parametrize("value", NO_COUNTS)
def test_counts_of_an_index_are_counts(index, value, tmp_path):
    refused("batch", lambda: Index.build(HashEncoder(), TEXTS, tmp_path / "index", batch=value))
    refused("rerank", lambda: Cascade(index, Longest(), value))
    refused("a position", lambda: index.delete([value]))
    refused("a position", lambda: index.vectors([value]))
    refused("first", lambda: list(index.candidates(value)))
    refused("history", lambda: calibrate(index, [], history=value))
    refused("threads", lambda: load("convert-small", threads=value))


def test_vectors_are_of_replies_that_are_there(index):
    assert index.vectors([3, 3]).shape == (2, 24)
    with pytest.raises(InputError, match=r"has no reply 12; its positions go from 0 to 11"):
        index.vectors([3, 12])


def test_there_is_no_vector_of_what_was_deleted(tmp_path):
    index = Index.build(HashEncoder(), TEXTS, tmp_path / "index")
    index.delete([3])
    for _ in range(2):
        with pytest.raises(InputError, match=r"reply 3 of .* was deleted before"):
            index.vectors([2, 3])
        index.compact()


@pytest.mark.parametrize("value", [*NO_NUMBERS, -0.1, 1.1])
def test_a_confidence_is_a_probability(index, value):
    weights = {"score_weight": 1.0, "gap_weight": 1.0, "intercept": 0.0}
    fingerprint = index.manifest.model.fingerprint
    Calibration(index=index.fingerprint, model=fingerprint, history=None, **weights).save(index.store)
    confident = CalibratedIndex(index)
    refused("minimum_confidence", lambda: confident.answer([["reply 3"]], value))


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_confident_answer_refuses_the_same(index, value):
    weights = {"score_weight": 1.0, "gap_weight": 1.0, "intercept": 0.0}
    fingerprint = index.manifest.model.fingerprint
    Calibration(index=index.fingerprint, model=fingerprint, history=None, **weights).save(index.store)
    confident = CalibratedIndex(index)
    refused("minimum_score", lambda: confident.answer([["reply 3"]], 0.5, minimum_score=value))
    refused("k", lambda: confident.answer([["reply 3"]], 0.5, value))
