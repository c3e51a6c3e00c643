import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.networks import inference

from .conftest import ROWS, convert, random_batch


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


@pytest.mark.parametrize("post", ["none", "swish", "gelu", "relu"])
@given(
    rows=st.lists(st.integers(0, 99), min_size=1, max_size=40),
    magnitude=st.sampled_from([1e-30, 1e-3, 1.0, 1e4]),
)
def test_eight_bit_products_keep_a_row_apart_from_the_rows_beside_it(post, rows, magnitude):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 48, generator=generator)
    weight = torch.randn(24, 48, generator=generator)
    bias = torch.randn(24, generator=generator)
    layer = inference._Int8Linear(weight, bias, post)
    found = layer(x[rows])
    beside = torch.cat([x[rows], magnitude * torch.ones(1, 48)])
    # the last numbers of a tensor go through another exponential function than those before
    torch.testing.assert_close(layer(beside)[:-1], found, rtol=1e-6, atol=1e-6)
    product = F.linear(x[rows], weight, bias)
    error = found - inference.ACTIVATIONS[post](product.clone())
    assert error.norm() < 0.03 * product.norm()


def test_eight_bit_products_take_inputs_that_are_all_equal():
    layer = inference._Int8Linear(torch.eye(16), torch.zeros(16))
    for value in (0.0, 2.5, -2.5):
        assert torch.allclose(
            layer(torch.full((3, 16), value)), torch.full((3, 16), value), atol=0.03
        )


def test_without_onednn_plain_layers_stay_and_int8_says_so(monkeypatch):
    network = convert(ROWS)
    monkeypatch.setattr(inference.processor, "has_onednn", lambda: False)
    expected = encodings(network)
    assert torch.equal(encodings(inference.pack_linears(network, "fp32")), expected)
    with pytest.raises(InputError, match="oneDNN"):
        inference.pack_linears(network, "int8")


@pytest.mark.parametrize(
    ("bfloat16", "vnni", "onednn", "transformer", "convert"),
    [
        (True, True, True, "bf16", "bf16"),
        (False, True, True, "int8", "fp32"),
        (False, True, False, "fp32", "fp32"),
        (False, False, True, "int8", "fp32"),
        (False, False, False, "fp32", "fp32"),
    ],
)
def test_auto_takes_what_the_processor_computes(
    monkeypatch, bfloat16, vnni, onednn, transformer, convert
):
    monkeypatch.setattr(inference.processor, "has_fast_bfloat16", lambda: bfloat16)
    monkeypatch.setattr(inference.processor, "has_exact_int8", lambda: vnni)
    monkeypatch.setattr(inference.processor, "has_onednn", lambda: onednn)
    assert inference.choose_precision("auto", "multi-context-bi-encoder") == transformer
    for kind in ("convert", "cross-encoder", None):
        assert inference.choose_precision("auto", kind) == convert


def test_an_unknown_precision_is_refused():
    with pytest.raises(InputError, match="auto, fp32, bf16, int8"):
        inference.choose_precision("fp8", "convert")
