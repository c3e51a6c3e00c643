"""The padded form: the same vectors as the packed one, whatever is padded."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.models.convert import Convert
from rejoinder.models.encoder import Encoder
from rejoinder.models.multi_context import MultiContextConvert
from rejoinder.models.padded import encode_conversations, encode_padded, pad

from .conftest import lively, small_config
from .test_encoder import SUBWORDS

TEXTS = st.lists(st.text(alphabet="abcdefgh ?!\n", max_size=40), min_size=1, max_size=6)


def encoder_of(kind, **changes):
    torch.manual_seed(0)
    module = lively(kind(small_config(**changes), SUBWORDS.rows)).eval()
    return Encoder(module, SUBWORDS, max_length=20, fingerprint="f")


SINGLE = encoder_of(Convert)
MULTI = encoder_of(MultiContextConvert, history=10)


def wider(ids, mask, more):
    """The same texts with more columns of padding."""
    ids = np.pad(ids, ((0, 0), (0, more)), constant_values=SUBWORDS.padding_id)
    return torch.from_numpy(ids), torch.from_numpy(np.pad(mask, ((0, 0), (0, more))))


@settings(max_examples=25, deadline=None)
@given(TEXTS, st.integers(0, 5))
def test_padded_texts_have_the_vectors_of_packed_ones(texts, more):
    ids, mask = wider(*pad(SUBWORDS, texts, 20), more)
    with torch.no_grad():
        context = encode_padded(SINGLE.module, ids, mask, "context").numpy()
        response = encode_padded(SINGLE.module, ids, mask, "response").numpy()
    assert np.abs(context - SINGLE.encode_contexts([[text] for text in texts])).max() < 1e-5
    assert np.abs(response - SINGLE.encode_responses(texts)).max() < 1e-5
    assert np.abs(context - response).max() > 1e-3


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(0, 3), st.integers(0, 3))
def test_conversations_with_and_without_history(contexts, more, still_more):
    ids, mask = wider(*pad(SUBWORDS, [context[-1] for context in contexts], 20), more)
    history = [MULTI.module.history.join(context) for context in contexts]
    earlier = wider(*pad(SUBWORDS, history, 20), still_more)
    with torch.no_grad():
        vectors = encode_conversations(MULTI.module, ids, mask, *earlier).numpy()
    assert np.abs(vectors - MULTI.encode_contexts(contexts)).max() < 1e-5


def test_the_rectangle_of_texts():
    ids, mask = pad(SUBWORDS, ["see the cat", "", "x" * 100], 7)
    assert ids.shape == mask.shape == (3, 7)
    assert mask.sum(axis=1).tolist()[1:] == [0, 7]
    assert (ids[~mask] == SUBWORDS.padding_id).all()
    assert (ids[mask] != SUBWORDS.padding_id).all()
    assert pad(SUBWORDS, [""], 7)[0].shape == (1, 1)
    assert pad(SUBWORDS, [], 7)[0].shape == (0, 1)


@pytest.mark.parametrize("texts", [["hello"], ["", "hello"]])
def test_gradients_reach_the_embedding(texts):
    torch.manual_seed(0)
    module = lively(Convert(small_config(), SUBWORDS.rows)).train()
    ids, mask = map(torch.from_numpy, pad(SUBWORDS, texts, 20))
    encode_padded(module, ids, mask, "context")[:, 0].sum().backward()
    assert module.embedding.weight.grad.abs().sum() > 0
