import copy

import numpy as np
import pytest
import torch

from rejoinder.errors import InputError
from rejoinder.networks import inference
from rejoinder.networks.inference import FIXED_LENGTH, SingleTexts, pack_linears
from rejoinder.networks import pack

from .conftest import ROWS, convert, random_batch, random_texts


def encodings(network):
    with torch.inference_mode():
        return network.context_head(network.reduce(random_batch(32)))


@pytest.mark.parametrize(
    ("precision", "closeness"), [("fp32", 1 - 1e-5), ("bf16", 0.995), ("int8", 0.995)]
)
@pytest.mark.parametrize("layout", ["paper", "original"])
def test_packed_layers_give_the_same_vectors(precision, closeness, layout):
    network = convert(ROWS, feed_forward_2=layout)
    expected = encodings(network)
    packed = inference.pack_linears(copy.deepcopy(network), precision)
    assert (encodings(packed) * expected).sum(dim=1).min() > closeness


def test_eight_bit_products_take_inputs_that_are_all_equal():
    layer = inference._Int8Linear(torch.eye(16), torch.zeros(16))
    for value in (0.0, 2.5, -2.5):
        assert torch.allclose(
            layer(torch.full((3, 16), value)), torch.full((3, 16), value), atol=0.03
        )


def test_without_onednn_plain_layers_stay_and_int8_says_so(monkeypatch):
    network = convert(ROWS)
    monkeypatch.setattr(inference.environment, "has_onednn", lambda: False)
    expected = encodings(network)
    assert torch.equal(encodings(inference.pack_linears(network, "fp32")), expected)
    with pytest.raises(InputError, match="oneDNN"):
        inference.pack_linears(network, "int8")


def test_auto_takes_bfloat16_only_where_the_processor_has_it(monkeypatch):
    for has_it, expected in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr(inference.environment, "has_fast_bfloat16", lambda has_it=has_it: has_it)
        assert inference.choose_precision("auto") == expected
    with pytest.raises(InputError, match="auto, fp32, bf16, int8"):
        inference.choose_precision("fp8")


@pytest.mark.parametrize(("precision", "closeness"), [("fp32", 1 - 1e-5), ("int8", 0.99)])
def test_what_is_encoded_beside_a_text_moves_its_vector_in_eight_bits_alone_and_little(
    precision, closeness
):
    network = inference.pack_linears(convert(ROWS), precision)
    ids, lengths = random_texts(32)
    ends = np.cumsum(lengths)
    with torch.inference_mode():
        together = network.encode(pack(ids, lengths, ROWS - 1), "context")
        for i, (start, end) in enumerate(zip(ends - lengths, ends, strict=True)):
            alone = network.encode(pack(ids[start:end], lengths[i : i + 1], ROWS - 1), "context")[0]
            assert together[i] @ alone > closeness


def text_of(length, seed=0):
    ids = np.random.default_rng(seed).integers(0, 30, length).astype(np.int32)
    return pack(ids, np.array([length], dtype=np.int32), ROWS - 1)


@pytest.mark.parametrize("side", ["context", "response", "reduction"])
def test_one_recording_gives_every_text_of_every_length_its_own_vector(side):
    network = pack_linears(convert(), "int8")
    singles = SingleTexts(network)
    with torch.inference_mode():
        for length in (*range(1, 20), FIXED_LENGTH):
            batch = text_of(length, seed=length)
            vector = singles(batch, side)
            assert vector is not None
            assert torch.allclose(vector, network.encode(batch, side), atol=1e-5)
    assert len(singles._recordings) == 1


def test_floats_several_texts_and_long_texts_are_computed_the_ordinary_way():
    two = pack(np.zeros(4, dtype=np.int32), np.array([2, 2], dtype=np.int32), ROWS - 1)
    for precision, batch in (("fp32", text_of(5)), ("int8", two), ("int8", text_of(90))):
        singles = SingleTexts(pack_linears(convert(), precision))
        with torch.inference_mode():
            assert singles(batch, "context") is None
