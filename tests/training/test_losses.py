"""The in-batch loss against a double loop, and against the mistakes of other implementations."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from rejoinder.training.batches import equal_pairs
from rejoinder.training.losses import InBatchLoss


def naive(x, y, scale, smoothing, groups, present=None):
    """The definition, one pair after the other: `groups` are equal for equal responses; there may be more y than x."""
    counted, total = [i for i in range(len(x)) if present is None or present[i]], 0.0
    for i in counted:
        seen = [j for j in range(len(y)) if j == i or groups[j] != groups[i]]
        score = {j: scale * float(x[i] @ y[j]) for j in seen}
        log_sum = math.log(sum(math.exp(value) for value in score.values()))
        others = [j for j in seen if j != i]
        share = smoothing if others else 0.0
        total -= (1 - share) * (score[i] - log_sum)
        total -= sum(share / len(others) * (score[j] - log_sum) for j in others)
    return total / max(len(counted), 1)


def units(k, d, seed, dtype=torch.float64):
    return F.normalize(torch.randn(k, d, generator=torch.Generator().manual_seed(seed), dtype=dtype), dim=1)


def equal_of(groups):
    return torch.from_numpy(equal_pairs(np.array(groups)))


@settings(max_examples=80, deadline=None)
@given(
    groups=st.lists(st.integers(0, 5), min_size=1, max_size=9),
    further=st.lists(st.integers(0, 5), max_size=9),
    smoothing=st.sampled_from([0.0, 0.2, 0.9]),
    scale=st.sampled_from([1.0, 22.6]),
    seed=st.integers(0, 1000),
)
def test_it_is_the_definition_with_smoothing_masked_equal_responses_and_further_negatives(
    groups, further, smoothing, scale, seed
):
    both = [*groups, *further]
    x, y = units(len(groups), 4, seed), units(len(both), 4, seed + 1)
    equal = equal_of(both)
    found = InBatchLoss(smoothing)(x, y, scale, equal[:, equal[0] < len(groups)], pairs=len(groups))
    assert float(found.value) == pytest.approx(naive(x, y, scale, smoothing, both), abs=2e-5)
    scores = x @ y.T
    wins = [
        all(scores[i, i] > scores[i, j] for j in range(len(both)) if both[j] != both[i]) for i in range(len(groups))
    ]
    assert float(found.accuracy) == pytest.approx(sum(wins) / len(wins))


@settings(max_examples=40, deadline=None)
@given(
    groups=st.lists(st.integers(0, 4), min_size=1, max_size=12).filter(lambda groups: len(groups) % 2 == 0),
    shares=st.sampled_from([1, 2]),
    seed=st.integers(0, 1000),
)
def test_the_shares_of_several_processes_add_up_to_the_loss(groups, shares, seed):
    x, y = units(len(groups), 4, seed), units(len(groups), 4, seed + 1)
    equal, loss, own = equal_of(groups), InBatchLoss(0.2), len(groups) // shares
    whole, parts = loss(x, y, 5.0, equal), []
    for first in range(0, len(groups), own):
        mine = equal[:, (equal[0] >= first) & (equal[0] < first + own)] - torch.tensor([[first], [0]])
        parts.append(loss(x[first : first + own], y, 5.0, mine, first))
    assert sum(float(part.value) for part in parts) == pytest.approx(float(whole.value), abs=2e-6)
    assert sum(float(part.accuracy) for part in parts) == pytest.approx(float(whole.accuracy), abs=1e-6)


@pytest.mark.parametrize("groups", [[0, 1, 2, 3, 4], [0, 1, 0, 2, 0], [0, 1, 0, 2, 0, 3, 2]])
def test_the_gradient_is_the_one_of_finite_differences(groups):
    loss, equal = InBatchLoss(0.2), equal_of(groups)  # `exact` keeps the double precision that differences need
    equal = equal[:, equal[0] < 5]
    x, y = units(5, 3, 0).requires_grad_(), units(len(groups), 3, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: loss.exact(a, b, 3.0, equal, 0, 5).value, (x, y))


def test_it_computes_in_float32_under_autocast():
    x, y = units(32, 16, 0, torch.float32), units(32, 16, 1, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        inside = InBatchLoss(0.2)(x, y, 22.6).value
    assert inside.dtype == torch.float32
    assert float(inside) == float(InBatchLoss(0.2)(x, y, 22.6).value)
    assert InBatchLoss(0.2)(x.bfloat16(), y.bfloat16(), 22.6).value.dtype == torch.float32
