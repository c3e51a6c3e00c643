"""PyTorch's private names: what is computed with them, and what happens where one is absent."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from rejoinder import processor
from rejoinder.networks import inference

# eight in each doubling
ROUND = {*range(1, 17), *(step << octave for octave in range(1, 7) for step in range(9, 17))}


@pytest.mark.skipif(not processor.has_onednn(), reason="a PyTorch without oneDNN")
@pytest.mark.parametrize(
    ("post", "form", "plain"), [("none", "", lambda y: y), ("swish", "", F.silu)]
)
def test_packed_layers_compute_what_plain_ones_do(post, form, plain):
    x, weight, bias = torch.randn(5, 16), torch.randn(24, 16), torch.randn(24)
    found = processor.packed_linear(x, processor.pack_weight(weight), bias, post, form)
    torch.testing.assert_close(found, plain(F.linear(x, weight, bias)), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "name", ["_is_avx512_bf16_supported", "_is_amx_tile_supported", "_is_vnni_supported"]
)
def test_a_probe_that_is_absent_says_no(monkeypatch, name):
    for probe in ("_is_avx512_bf16_supported", "_is_amx_tile_supported", "_is_vnni_supported"):
        monkeypatch.setattr(torch.cpu, probe, lambda: False, raising=False)
    monkeypatch.delattr(torch.cpu, name)
    assert not processor.has_fast_bfloat16()
    assert not processor.has_exact_int8()


@pytest.mark.skipif(not processor.has_onednn(), reason="a PyTorch without oneDNN")
def test_eight_bit_products_are_the_sums_of_integers():
    x = torch.randint(0, 256, (5, 16), dtype=torch.uint8)
    weight = torch.randint(-63, 64, (24, 16), dtype=torch.int8)
    scales = torch.rand(24)
    zeros = torch.zeros(24, dtype=torch.int64)
    product = processor.packed_int8_linear(
        x, 100, processor.pack_int8_weight(weight), scales, zeros
    )
    expected = (x.long() - 100) @ weight.long().T * scales
    torch.testing.assert_close(product, expected)


def test_where_an_operation_or_all_of_onednn_is_absent_nothing_is_packed(monkeypatch):
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4))
    with monkeypatch.context() as patch:
        patch.setattr(processor, "_ONEDNN", ("mkldnn._no_such_operation",))
        assert not processor.has_onednn()
        assert type(inference.pack_linears(layer, "fp32")[0]) is torch.nn.Linear
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not processor.has_onednn()
    assert not processor.packs_bfloat16()


@given(st.integers(1, 5000))
def test_few_numbers_of_rows_are_computed(rows):
    computed = []
    x = torch.ones(rows, 3)
    y = processor._with_rounded_rows(lambda x: computed.append(len(x)) or 2 * x, x)
    torch.testing.assert_close(y, 2 * x)
    [count] = computed
    assert rows <= count <= rows + rows // 8
    assert rows >= 1024 or count in ROUND


def test_rounding_keeps_other_dimensions():
    x = torch.randn(3, 7, 5)
    assert torch.equal(processor._with_rounded_rows(lambda x: 2 * x, x), 2 * x)
    assert processor._with_rounded_rows(lambda x: x, torch.zeros(0, 5)).shape == (0, 5)
