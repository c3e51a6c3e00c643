"""SIM and MAP over an encoder made for the test."""

from __future__ import annotations

import numpy as np
import pytest

from rejoinder.baselines.encoders import TextVectors
from rejoinder.baselines.fitting import Fitted
from rejoinder.baselines.mapping import MapSettings
from rejoinder.baselines.vectors import Map, Sim, WithHistory
from rejoinder.corpora.example import Example
from rejoinder.errors import InputError, RejoinderError
from rejoinder.ranker import Ranker

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((400, 12)).astype(np.float32)
TURN = np.linalg.qr(RNG.standard_normal((12, 12)))[0].astype(np.float32)


def encode(texts):
    """"q 7" and "a 7" get vectors that are alike only after a rotation; lengths differ, and "nothing" is zero."""
    rows = []
    for text in texts:
        kind, _, number = text.partition(" ")
        vector = np.zeros(12, dtype=np.float32) if kind == "nothing" else TABLE[int(number)]
        rows.append((vector @ TURN if kind == "a" else vector) * (1 + len(text)))
    return np.stack(rows)


EXAMPLES = [Example(("earlier", f"q {i}"), f"a {i}") for i in range(400)]
SHORT = MapSettings(learning_rates=(3.0,), penalties=(0.0,), epochs=30)


def test_sim_is_the_cosine_of_the_newest_message_and_a_candidate():
    lists = [["q 1", "q 2", "nothing"], ["q 3", "q 1", "q 1"]]
    scores = Sim(TextVectors(encode)).score([["q 5", "q 1"], ["q 3"]], lists)
    assert scores.dtype == np.float32
    unit = TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True)
    expected = [[1.0, unit[1] @ unit[2], 0.0], [1.0, unit[3] @ unit[1], unit[3] @ unit[1]]]
    assert np.allclose(scores, expected, atol=1e-6)


def test_with_history_a_context_is_the_mean_of_its_newest_and_its_earlier_messages():
    encoder, units = TextVectors(encode), TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True)
    long = [f"q {i}" for i in range(13)]
    contexts = [["q 7"], ["q 1", " ", "q 2", "q 3"], long, ["nothing", "q 4"]]
    found = Sim(WithHistory(encoder)).encode_contexts(contexts)
    earlier = [units[1] + units[2], units[2:12].sum(axis=0)]
    expected = [units[7], *(units[n] + part / np.linalg.norm(part) for n, part in zip((3, 12), earlier, strict=True))]
    expected.append(units[4])
    assert np.allclose(found, [row / np.linalg.norm(row) for row in expected], atol=1e-5)
    assert np.array_equal(Sim(WithHistory(encoder)).encode_contexts([["q 7"]]), found[:1])
    assert WithHistory(encoder).encode_contexts([]).shape[0] == 0


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_map_learns_what_sim_cannot_know(similarity):
    encoder = TextVectors(encode)
    ranker = Map(encoder, MapSettings(learning_rates=(3.0,), penalties=(0.0,), epochs=30, similarity=similarity))
    told = ranker.fit(EXAMPLES[:300])
    contexts, answers = [e.context for e in EXAMPLES[300:]], [e.response for e in EXAMPLES[300:]]
    right = np.arange(100)
    sim = (Sim(encoder).score(contexts, [answers] * 100).argmax(axis=1) == right).mean()
    found = (ranker.score(contexts, [answers] * 100).argmax(axis=1) == right).mean()
    assert found > 0.5 > 0.2 > sim
    assert (told["examples"], told["learning_rate"], told["l2"]) == (300, 3.0, 0.0)
    assert told["recall_at_1"] == max(told["curves"][0]["recall_at_1"]) > told["recall_at_1_unmapped"]
    if similarity == "cosine":
        assert np.abs(ranker.score(contexts, [answers] * 100)).max() <= 1 + 1e-5


def test_they_are_rankers_and_map_learns():
    assert isinstance(Sim(TextVectors(encode)), Ranker)
    assert not isinstance(Sim(TextVectors(encode)), Fitted)
    assert isinstance(Map(TextVectors(encode)), Fitted)


def test_map_before_fitting_and_with_too_little():
    with pytest.raises(RejoinderError, match="MAP has not learned"):
        Map(TextVectors(encode)).score([["q 1"]], [["a 1"]])
    with pytest.raises(InputError, match="9 given, 10 or more"):
        Map(TextVectors(encode)).fit(EXAMPLES[:9])


def test_each_text_is_encoded_once_for_all_that_share_the_encoder():
    seen: list[str] = []
    encoder = TextVectors(lambda texts: seen.extend(texts) or encode(texts))
    ranker, steps = Map(encoder, SHORT), []
    ranker.fit(EXAMPLES[:50], steps.append)
    assert sum(steps) == 100
    Map(encoder, SHORT).fit(EXAMPLES[:60], steps.append)
    assert sum(steps) == 220
    for other in (ranker, Sim(encoder)):
        other.score([["q 1"], ["a 2"]], [["a 1", "a 1", "q 70"]] * 2)
    assert sorted(seen) == sorted({*(f"q {i}" for i in range(60)), *(f"a {i}" for i in range(60)), "q 70"})


def test_sides_that_differ_are_kept_apart():
    encoder = TextVectors(lambda texts: np.ones((len(texts), 2)), lambda texts: np.zeros((len(texts), 2)))
    assert encoder.encode_contexts([["x"]]).tolist() == [[1, 1]]
    assert encoder.encode_responses(["x"]).tolist() == [[0, 0]]
    assert encoder.encode_responses([]).shape[0] == 0


def test_empty_calls():
    ranker = Sim(TextVectors(encode))
    assert ranker.score([], []).shape == (0, 0)
    assert ranker.score([["q 1"]], [[]]).shape == (1, 0)
    with pytest.raises(InputError, match="1 contexts, but 2 lists"):
        ranker.score([["q 1"]], [["a 1"], ["a 1"]])
