"""Products of small matrices: what they are, and that no new shape is compiled in every batch."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rejoinder import processor
from rejoinder.networks import products
from rejoinder.networks.products import add_to_each, multiply_each

ENCODE = """
import random
import sys
import torch
from rejoinder.encoders.open import open_encoder

torch.set_num_threads(1)
encoder = open_encoder("convert-small", engine="torch")
draw = random.Random(0)
for batch in range(55):
    if batch == 5:
        print("--- now", flush=True)
    texts = [" ".join(["word"] * draw.randint(1, 50)) for _ in range(draw.randint(8, 16))]
    encoder.encode_responses(texts)
"""


@given(
    shape=st.tuples(*[st.integers(1, 6)] * 4),
    limit=st.sampled_from([0, products.COMPILED]),
    scale=st.sampled_from([1.0, 0.125]),
)
def test_products_in_16_bits_are_those_of_the_same_numbers_in_32(shape, limit, scale):
    n, i, k, j = shape
    draw = torch.Generator().manual_seed(0)
    x, y, added = (torch.randn(n, *each, generator=draw).bfloat16() for each in ((i, k), (k, j), (i, j)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "COMPILED", limit)
        found = multiply_each(x, y), add_to_each(added, x, y, scale)
    wide = x.float() @ y.float()
    for product, expected in zip(found, (wide, scale * wide + added), strict=True):
        assert product.dtype == torch.bfloat16
        torch.testing.assert_close(product.float(), expected, rtol=0.01, atol=0.02)


def test_in_32_bits_nothing_is_rounded():
    x, y, added = torch.randn(3, 4, 5), torch.randn(3, 5, 2), torch.randn(3, 4, 2)
    torch.testing.assert_close(multiply_each(x, y), x @ y)
    torch.testing.assert_close(add_to_each(added, x, y, 0.5), 0.5 * (x @ y) + added)


def test_under_autocast_gradients_are_those_of_32_bits():
    x, y = torch.randn(3, 4, 5, requires_grad=True), torch.randn(3, 5, 2, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        product = multiply_each(x, y)
    assert product.dtype == torch.bfloat16
    found = torch.autograd.grad(product.float().square().sum(), (x, y))
    expected = torch.autograd.grad((x @ y).square().sum(), (x, y))
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.1)


@pytest.mark.skipif(
    not processor.has_fast_bfloat16() or not processor.has_onednn(), reason="no products of 16 bits here"
)
def test_batches_of_any_lengths_need_few_new_programs():
    done = subprocess.run(
        [sys.executable, "-c", ENCODE], capture_output=True, check=True, text=True, env=os.environ | {"ONEDNN_VERBOSE": "2"}
    )
    _, after = done.stdout.split("--- now")
    assert "cache_hit" in after, "oneDNN tells nothing"
    # each of five kinds of layers may meet some more of the 64 numbers of rows
    assert after.count("cache_miss") < 35
