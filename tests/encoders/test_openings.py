"""A conversation's first message keeps what the transformer knows of it, beside what the heads make of that."""

import numpy as np
import pytest

import rejoinder
from rejoinder.arrays import unit_rows
from tests.encoders import tiny_transformer

KIND = "multi-context-bi-encoder"
CONTEXTS = [["hello there", "what about the cats?"], ["how are you today?"], ["", "fine thanks"]]
OPENINGS = [1, 2]  # a blank message says nothing
REPLIES = ["they sleep all day long", "in the sun"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The same model without and with a weight."""
    folder = tmp_path_factory.mktemp("models")
    changes = {"history": 3, "input_weight": 0.25, "context_length": None}
    return [
        tiny_transformer.opened(folder / str(w), KIND, opening_weight=w, **changes)
        for w in (0.0, 1.5)
    ]


def test_r_is_added_where_nothing_was_said_before(models):
    plain, weighted = models
    wanted = plain.encode_contexts(CONTEXTS)
    r = unit_rows(plain.transfer([context[-1] for context in CONTEXTS]))
    wanted[OPENINGS] = unit_rows(wanted + 1.5 * r)[OPENINGS]
    found = weighted.encode_contexts(CONTEXTS)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert np.abs(found - plain.encode_contexts(CONTEXTS))[OPENINGS].max() > 0.01
    np.testing.assert_allclose(weighted.with_cache().encode_contexts(CONTEXTS), found, atol=1e-6)
    np.testing.assert_allclose(
        weighted.score(CONTEXTS, [REPLIES] * 3),
        found @ weighted.encode_responses(REPLIES).T,
        atol=1e-6,
    )


def test_replies_and_parts_of_a_context_are_encoded_as_before(models):
    plain, weighted = models
    np.testing.assert_array_equal(
        weighted.encode_responses(REPLIES), plain.encode_responses(REPLIES)
    )
    for part in ("input", "history"):
        found, wanted = (model.by(part).encode_contexts(CONTEXTS) for model in (weighted, plain))
        np.testing.assert_array_equal(found, wanted)


def test_a_first_message_is_read_once(models, monkeypatch):
    model, read = models[1], []
    encode = model.module.encode
    monkeypatch.setattr(
        model.module, "encode", lambda batch, side: read.append(side) or encode(batch, side)
    )
    model.encode_contexts([["how are you today?"]])
    assert read == ["opening"]


def test_a_search_scores_a_first_message_so(models, tmp_path):
    index = rejoinder.Index.build(models[1], REPLIES, tmp_path / "index")
    (found,) = index.search([CONTEXTS[1]], 2)
    assert {reply.text: pytest.approx(reply.score, abs=1e-5) for reply in found} == dict(
        zip(REPLIES, models[1].score([CONTEXTS[1]], [REPLIES])[0].tolist(), strict=True)
    )
