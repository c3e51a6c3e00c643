"""What a persona states: a response attends over it, in scores and in searches, whatever is scored beside it."""

import numpy as np
import pytest

import rejoinder
from rejoinder.arrays import unit_rows
from rejoinder.encoders import persistence
from rejoinder.encoders.conversation import INVERSE_TEMPERATURE
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.encoders.torch import Encoder
from tests.encoders import tiny_transformer
from tests.encoders.conftest import saved

STATED = ["i ski.", "i have a dog.", "the cat is mine."]
PERSONA = " ".join(f"your persona: {text}" for text in STATED)
CONTEXTS = [
    [PERSONA, "hello there", "what do you do?"],
    ["hello there", "what do you do?"],
    ["your persona: i ski.", "your persona: i ski.", "what do you do?"],
    ["what do you do?"],
    ["your persona: ", "hello there", "what do you do?"],
]
STATEMENTS = [STATED, [], ["i ski.", "i ski."], [], []]
REPLIES = ["i am a cook.", "soon", "my dog is here", "i ski in the winter", "bye"]


def load(folder):
    return rejoinder.load(folder, precision="fp32")


def wanted(model, weight):
    """Scores by the formula, in float64, of a model that attends over nothing: vectors of it, and of its statements."""
    y = model.encode_responses(REPLIES).astype(np.float64)
    scores = model.encode_contexts(CONTEXTS) @ y.T
    for row, statements in enumerate(STATEMENTS):
        if statements:
            products = weight * model._encode(statements, "history", None).astype(np.float64) @ y.T
            shares = np.exp(INVERSE_TEMPERATURE * products) / np.exp(
                INVERSE_TEMPERATURE * products
            ).sum(axis=0)
            scores[row] += (shares * products).sum(axis=0)
    return scores


@pytest.fixture(scope="module", params=["convert", "multi-context-bi-encoder"])
def folders(request, tmp_path_factory):
    """The same model without and with a weight."""
    folders = {weight: tmp_path_factory.mktemp("models") / "model" for weight in (0.0, 0.7)}
    for weight, folder in folders.items():
        if request.param == "convert":
            saved(folder, history=3, persona_weight=weight)
        else:
            tiny_transformer.opened(
                folder, request.param, history=3, persona_weight=weight, context_length=None
            )
    return list(folders.values())


def test_a_response_attends_over_the_statements(folders):
    plain, attending = map(load, folders)
    np.testing.assert_allclose(
        attending.score(CONTEXTS, [REPLIES] * 5), wanted(plain, 0.7), atol=1e-5
    )
    np.testing.assert_allclose(plain.score(CONTEXTS, [REPLIES] * 5), wanted(plain, 0.0), atol=1e-5)
    np.testing.assert_array_equal(
        attending.encode_contexts(CONTEXTS), plain.encode_contexts(CONTEXTS)
    )
    assert not isinstance(attending.by("input").encode_queries(CONTEXTS), ContextVectors)
    assert attending.encode_queries([]).shape == (0, attending.size)


def test_the_newest_message_is_added_to_the_conversation(folders):
    plain = load(folders[0])
    module = persistence.load_module(folders[0])[0].eval()
    module.input_weight = 0.5
    weighted = Encoder(module, plain.tokenizer, max_length=plain.max_length, fingerprint="f")
    sums = plain.encode_contexts(CONTEXTS) + 0.5 * plain.by("input").encode_contexts(CONTEXTS)
    np.testing.assert_allclose(weighted.encode_contexts(CONTEXTS), unit_rows(sums), atol=1e-5)
    np.testing.assert_allclose(
        weighted.encode_responses(REPLIES), plain.encode_responses(REPLIES), atol=1e-5
    )


def test_a_score_does_not_depend_on_what_is_scored_beside_it(folders):
    attending = load(folders[1])
    together = attending.score(CONTEXTS, [REPLIES] * 5)
    alone = np.concatenate([attending.score([context], [REPLIES]) for context in CONTEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    without = [row for row, statements in enumerate(STATEMENTS) if not statements]
    plain = load(folders[0]).score(CONTEXTS, [REPLIES] * 5)
    np.testing.assert_array_equal(together[without], plain[without])


@pytest.mark.parametrize("hybrid", [0.0, 0.05])
def test_a_search_finds_by_the_same_scores(folders, tmp_path, hybrid):
    attending = load(folders[1])
    index = rejoinder.Index.build(attending, REPLIES, tmp_path / "index")
    scores = attending.score(CONTEXTS, [REPLIES] * 5)
    options = {"history": None, "hybrid": hybrid}
    plain = rejoinder.Index.build(load(folders[0]), REPLIES, tmp_path / "plain")
    for row, found in enumerate(plain.search(CONTEXTS, 5, **options)):
        # less what the model gives: BM25's part
        words = {reply.text: reply.score for reply in found}
        for reply in plain.search(CONTEXTS[row : row + 1], 5, history=None)[0]:
            scores[row, REPLIES.index(reply.text)] += words[reply.text] - reply.score
    for own, found in zip(scores, index.search(CONTEXTS, 5, **options), strict=True):
        assert [reply.text for reply in found] == [REPLIES[i] for i in np.argsort(-own)]
        np.testing.assert_allclose(
            [reply.score for reply in found], sorted(own, reverse=True), atol=1e-5
        )
    lowest = float(np.median(scores)) + 1e-4
    for own, found in zip(scores, index.search(CONTEXTS, 5, lowest, **options), strict=True):
        assert len(found) == (own >= lowest).sum()


def test_joined_models_add_what_their_parts_attend_over(tmp_path):
    weights = (0.7, 0.0)
    parts = [
        load(saved(tmp_path / f"{w}", history=3, persona_weight=w, output_size=32)) for w in weights
    ]
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*parts, 0.4))
    joined = load(tmp_path / "joined")
    y = [part.encode_responses(REPLIES).astype(np.float64) for part in parts]
    found = joined.score(CONTEXTS, [REPLIES] * 5)
    for row, statements in enumerate(STATEMENTS):
        expected = sum(
            share * part.encode_contexts(CONTEXTS[row : row + 1])[0] @ rows.T
            for share, part, rows in zip((0.6, 0.4), parts, y, strict=True)
        )
        if statements:
            products = (
                0.6
                * 0.7
                * parts[0]._encode(statements, "history", None).astype(np.float64)
                @ y[0].T
            )
            shares = np.exp(INVERSE_TEMPERATURE * products) / np.exp(
                INVERSE_TEMPERATURE * products
            ).sum(axis=0)
            expected = expected + (shares * products).sum(axis=0)
        np.testing.assert_allclose(found[row], expected, atol=1e-5)
    both = JoinedEncoder(parts[0], parts[0], 0.4)
    np.testing.assert_allclose(
        both.score(CONTEXTS, [REPLIES] * 5), parts[0].score(CONTEXTS, [REPLIES] * 5), atol=1e-5
    )
    assert not isinstance(
        JoinedEncoder(parts[1], parts[1]).encode_queries(CONTEXTS), ContextVectors
    )
