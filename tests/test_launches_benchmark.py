"""A training step on a card has few operators, as many in every step."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import launches

from rejoinder.networks.quantization.rounding import HALVES, round_to_half
from rejoinder.networks.quantization.training import round_together


# PyTorch's encoder has no quantisation
@pytest.mark.parametrize("name", sorted(launches.MODELS.keys() - {"convert, quantised"}))
def test_a_step_has_at_most_half_as_many_again_as_pytorchs_encoder(name):
    ours, steady, _ = launches.count_steps(*launches.our_step(name))
    plain, _, _ = launches.count_steps(*launches.plain_step(name))
    assert steady, "the lengths of the texts do not count"
    assert ours <= 1.5 * plain


@pytest.mark.parametrize("name", launches.MODELS)
def test_every_kind_has_the_same_number_in_every_step(name):
    assert launches.count_steps(*launches.our_step(name))[1]


def test_parameters_rounded_together_are_those_rounded_alone():
    parameters = [torch.randn(3, 4), torch.randn(5), torch.tensor(2.5)]
    for half in HALVES:
        found = round_together(parameters, half)
        for ours, parameter in zip(found, parameters, strict=True):
            assert torch.equal(ours, round_to_half(parameter, half))
