"""Means and rates."""

from __future__ import annotations

import pytest
import torch

from rejoinder.training.losses import Loss
from rejoinder.training.meter import Meter
from rejoinder.training.state import RunState

PAIRS, TOKENS = 2, 12


def loss(value: float, accuracy: float = 0.5) -> Loss:
    return Loss(torch.tensor(value), torch.tensor(accuracy))


def test_means_and_rates_are_of_the_steps_since_the_last_line() -> None:
    meter = Meter(RunState(), torch.device("cpu"))
    for value, seconds in ((1.0, 0.5), (3.0, 1.5)):
        meter.add(PAIRS, TOKENS, loss(value), seconds)
    expected = {"loss": 2.0, "accuracy": 0.5, "examples_per_second": 2.0, "tokens_per_second": 12.0}
    assert meter.take() == pytest.approx(expected)
    assert meter.rates() == pytest.approx((2.0, 12.0)), "until the next step the last line's"
    meter.add(PAIRS, TOKENS, loss(7.0, 1.0), 1.0)
    assert meter.take()["loss"] == 7.0


def test_it_goes_on_summing_from_a_stored_state() -> None:
    state = RunState()
    meter = Meter(state, torch.device("cpu"))
    meter.add(PAIRS, TOKENS, loss(1.0), 1.0)
    meter.store()
    again = Meter(state, torch.device("cpu"))
    again.add(PAIRS, TOKENS, loss(2.0), 1.0)
    assert again.take()["loss"] == 1.5


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_it_knows_when_a_loss_is_no_number(value: float) -> None:
    meter = Meter(RunState(), torch.device("cpu"))
    meter.add(PAIRS, TOKENS, loss(1.0), 1.0)
    assert meter.is_finite()
    meter.add(PAIRS, TOKENS, loss(value), 1.0)
    assert not meter.is_finite()
