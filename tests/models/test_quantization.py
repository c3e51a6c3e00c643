"""Rounding: what the levels promise, and that training does not feel them in its gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rejoinder.models.convert import Convert
from rejoinder.models.packing import pack
from rejoinder.models.quantization import (
    QuantizedTraining,
    bounds_of,
    round_parameters,
    round_to_levels,
    step_of,
    to_codes,
)

from .conftest import ROWS, convert, random_texts

numbers = st.floats(-1e4, 1e4, width=32)
tables = st.lists(numbers, min_size=1, max_size=40).map(lambda values: torch.tensor(values)[:, None])


def some_texts():
    ids, lengths = random_texts(16)
    return pack(ids, lengths, ROWS - 1)


def loss(module):
    """A number that depends on all of the network."""
    x, y = module(some_texts(), contexts=8)
    return (x * y.roll(1, 0)).sum() + (x * torch.linspace(-1, 1, x.shape[1])).sum()


@given(tables)
def test_the_range_covers_all_values_with_the_papers_room(table):
    low, high = bounds_of(table, room=True).double()
    room = max((table.max().double() - table.min().double()) * 0.1, 0.01)
    slack = 1e-6 * float(table.abs().max()) + 1e-6
    assert table.min() - low == pytest.approx(float(room), rel=1e-4, abs=slack)
    assert high - table.max() == pytest.approx(float(room), rel=1e-4, abs=slack)


@given(tables)
def test_rounding_is_off_by_half_a_step_at_most(table):
    bounds = bounds_of(table, room=True)
    error = (round_to_levels(table, bounds) - table).abs().max()
    assert error <= step_of(bounds) / 2 + 4e-7 * bounds.abs().max()


@given(tables)
def test_codes_fit_into_a_byte_and_rounding_twice_changes_nothing(table):
    bounds = bounds_of(table)
    codes = to_codes(table, bounds)
    assert torch.equal(codes, codes.to(torch.uint8).float())
    once = round_to_levels(table, bounds)
    assert torch.equal(to_codes(once, bounds), codes) or bounds.abs().max() * 1e-6 > step_of(bounds)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1e-3, 0.1, 1.0, 50.0]), st.integers(0, 2**31)), min_size=1, max_size=30),
    st.integers(1, 7),
)
def test_no_value_is_ever_outside_its_range(updates, every):
    """After each of any updates, large ones between two fittings included, as REFERENCE's point 10 asks."""
    module = nn.ModuleDict({"words": nn.Embedding(5, 3), "more": nn.Embedding(2, 3)})
    training = QuantizedTraining(module, "bfloat16", range_every=every)
    for step, (size, seed) in enumerate(updates, 1):
        before = training.ranges.bounds.clone()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) * size)
        training.cover(step)
        for was, bounds, parameter in zip(before, training.ranges.bounds, module.parameters(), strict=True):
            assert bounds[0] <= parameter.min()
            assert parameter.max() <= bounds[1]
            left = parameter.min() < was[0] or parameter.max() > was[1]
            fitted = torch.equal(bounds, bounds_of(parameter, room=True))
            assert fitted if left or step % every == 0 else torch.equal(bounds, was)


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_the_gradient_is_that_of_the_rounded_network(half):
    """Straight through: what the copies get, the originals get, to the last bit; nothing is lost in the rounding."""
    module = convert(ROWS)
    training = QuantizedTraining(module, half)
    rounded = Convert(module.config, ROWS)
    rounded.load_state_dict({k: v for k, v in module.state_dict().items() if not k.startswith("quantization.")})
    round_parameters(rounded, training.ranges.scheme())
    with training.rounded():
        value = loss(module)
    value.backward()
    expected = loss(rounded)
    expected.backward()
    assert value.item() == expected.item()
    wanted = dict(rounded.named_parameters())
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, wanted[name].grad), name
    assert module.embedding.weight.grad.abs().sum() > 0


def test_the_network_has_its_own_parameters_again_afterwards_even_after_an_error():
    module = convert(ROWS, feed_forward_2="original")  # with a layer that two parts share
    training = QuantizedTraining(module, "float16")
    before = dict(module.named_parameters())
    with training.rounded():
        assert not list(module.parameters())
        assert not isinstance(module.embedding.weight, nn.Parameter)
        assert module.context_head.input_skip.weight is module.response_head.input_skip.weight
    with pytest.raises(RuntimeError, match="midway"), training.rounded():
        raise RuntimeError("midway")
    after = dict(module.named_parameters())
    assert list(after) == list(before)
    assert all(after[name] is value for name, value in before.items())
    assert all(isinstance(value, nn.Parameter) for value in after.values())


def test_layer_norm_softmax_and_unit_length_stay_in_float32(monkeypatch):
    module = convert(ROWS)
    training = QuantizedTraining(module, "bfloat16")
    kinds = {"norm": set(), "softmax": set()}
    for child in module.modules():
        if isinstance(child, nn.LayerNorm):
            child.register_forward_hook(lambda layer, _, out: kinds["norm"].update({layer.weight.dtype, out.dtype}))
    plain = torch.softmax

    def noted(*args, **kwargs):
        result = plain(*args, **kwargs)
        kinds["softmax"].add(result.dtype)
        return result

    monkeypatch.setattr(torch, "softmax", noted)
    with torch.autocast("cpu", dtype=torch.bfloat16), training.rounded():
        x, _ = module(some_texts(), contexts=8)
    assert kinds == {"norm": {torch.float32}, "softmax": {torch.float32}}
    assert x.dtype == torch.float32
    assert torch.allclose(x.norm(dim=1), torch.ones(8), atol=1e-6)
