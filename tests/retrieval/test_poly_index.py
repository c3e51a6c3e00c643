"""An index of a poly-encoder: several vectors a context, one a reply, of any length."""

import numpy as np
import pytest

from rejoinder.errors import InputError
from rejoinder.ranker import ContextVectors, PolyEncoder
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.manifest import DTYPES
from tests.retrieval.conftest import HashEncoder
from tests.retrieval.test_search import attended

TEXTS = [f"reply {i}" for i in range(60)]
CONTEXTS = [["reply 3", "reply 40"], ["reply 7"], ["one", "two", "three", "four"]]


class HashPolyEncoder(HashEncoder):
    """One vector for each of the newest three messages; those that a context lacks are missing. No unit vectors."""

    unit_length = False

    def encode_responses(self, responses):
        lengths = np.array([2 + len(text) for text in responses], dtype=np.float32)
        return super().encode_responses(responses) * lengths[:, None]

    def encode_contexts(self, contexts):
        vectors = np.full((len(contexts), 3, self.size), np.nan, dtype=np.float32)
        present = np.zeros((len(contexts), 3), dtype=bool)
        for i, context in enumerate(contexts):
            newest = context[-3:]
            vectors[i, : len(newest)], present[i, : len(newest)] = self.encode_responses(newest), True
        return ContextVectors(vectors, present)

    def score(self, contexts, candidates):
        encoded = self.encode_contexts(contexts)
        vectors = [np.atleast_2d(encoded[i])[None] for i in range(len(contexts))]
        rows = [attended(self.encode_responses(texts), x)[0] for texts, x in zip(candidates, vectors, strict=True)]
        return np.stack(rows).astype(np.float32)


class DotEncoder(HashPolyEncoder):
    """One vector a context, of no unit length: a bi-encoder that does not normalise (POLY, section 4.2)."""

    def encode_contexts(self, contexts):
        return self.encode_responses([context[-1] for context in contexts])


def wanted(encoder, texts, context, k):
    [scores] = encoder.score([context], [texts])
    return [(texts[i], pytest.approx(scores[i], rel=1e-5)) for i in np.argsort(-scores, kind="stable")[:k]]


@pytest.mark.parametrize("kind", [HashPolyEncoder, DotEncoder])
@pytest.mark.parametrize("dtype", DTYPES)
def test_answers_are_those_of_the_model_also_after_adding_and_deleting(tmp_path, dtype, kind):
    encoder = kind()
    assert isinstance(encoder, PolyEncoder)
    index = Index.build(encoder, TEXTS, tmp_path / "index", dtype=dtype, batch=7)
    for context, replies in zip(CONTEXTS, index.search(CONTEXTS, k=5), strict=True):
        assert [(reply.text, reply.score) for reply in replies] == wanted(encoder, TEXTS, context, 5)
    index.add(["reply 3 again", "one"])
    index.delete([3, 7, 40, 60])
    left = [text for i, text in enumerate(TEXTS) if i not in (3, 7, 40)] + ["one"]
    for opened in (index, Index.open(tmp_path / "index", encoder)):
        for context, replies in zip(CONTEXTS, opened.search(CONTEXTS, k=100), strict=True):
            assert [(reply.text, reply.score) for reply in replies] == wanted(encoder, left, context, 100)


def test_what_is_no_number_is_refused(tmp_path):
    class Diverged(HashPolyEncoder):
        def encode_responses(self, responses):
            return np.inf * super().encode_responses(responses)

    class Huge(HashPolyEncoder):
        def encode_responses(self, responses):
            return np.float32(1e6) * super().encode_responses(responses)

    with pytest.raises(InputError, match=r"reply 0 has length .*diverged"):
        Index.build(Diverged(), TEXTS, tmp_path / "index")
    with pytest.raises(InputError, match="too much for float16"):
        Index.build(Huge(), TEXTS, tmp_path / "index", dtype="float16")
