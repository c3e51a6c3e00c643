"""The in-batch loss against a double loop; and a batch in parts, which has the loss and gradients of the whole one."""

import math
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from rejoinder.encoders.families import build_module
from rejoinder.training.data.batches import Portion, equal_pairs, make_step
from rejoinder.training.loop import forward_backward, train
from rejoinder.training.recipe.losses import InBatchLoss, SummedLoss
from tests.training.test_batches import histories, store
from tests.training.test_loop import At, CrashError, crash, losses
from tests.training.tiny import MODEL, NGRAM, recipe, stage

PADDING, PAIRS = 50, 20
KINDS = {"one text": MODEL, "with histories": {**MODEL, "history": 10}, "n-grams": NGRAM}


@pytest.mark.parametrize("file", ["losses", "optimization"])
def test_losses_and_optimizers_know_nothing_of_model_folders(file):
    code = f"import sys, rejoinder.training.recipe.{file}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"rejoinder.encoders.persistence", "safetensors"} & set(done.stdout.split())


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
    return F.normalize(
        torch.randn(k, d, generator=torch.Generator().manual_seed(seed), dtype=dtype), dim=1
    )


def equal_of(groups):
    return torch.from_numpy(equal_pairs(np.array(groups)))


@settings(max_examples=80)
@given(
    groups=st.lists(st.integers(0, 5), min_size=1, max_size=9),
    negatives=st.lists(st.integers(0, 5), max_size=9),
    smoothing=st.sampled_from([0.0, 0.2, 0.9]),
    scale=st.sampled_from([1.0, 22.6]),
    seed=st.integers(0, 1000),
)
def test_it_is_the_definition_with_smoothing_masked_equal_responses_and_additional_negatives(
    groups, negatives, smoothing, scale, seed
):
    both, k = [*groups, *negatives], len(groups)
    x, y = units(k, 4, seed), units(len(both), 4, seed + 1)
    equal = equal_of(both)
    found = InBatchLoss(smoothing)(x, y, scale, equal[:, equal[0] < k], pairs=k)
    assert float(found.value) == pytest.approx(naive(x, y, scale, smoothing, both), abs=2e-5)
    scores = x @ y.T
    wins = [
        all(scores[i, i] > scores[i, j] for j in range(len(both)) if both[j] != both[i])
        for i in range(k)
    ]
    assert float(found.accuracy) == pytest.approx(sum(wins) / k)


@pytest.mark.parametrize("groups", [[0, 1, 2, 3, 4], [0, 1, 0, 2, 0], [0, 1, 0, 2, 0, 3, 2]])
def test_the_gradient_is_the_one_of_finite_differences(groups):
    loss, equal = InBatchLoss(0.2), equal_of(groups)
    equal = equal[:, equal[0] < 5]
    x, y = units(5, 3, 0).requires_grad_(), units(len(groups), 3, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: loss(a, b, 3.0, equal, pairs=5).value, (x, y))


def test_it_computes_in_float32_under_autocast():
    x, y = units(32, 16, 0, torch.float32), units(32, 16, 1, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        inside = InBatchLoss(0.2)(x, y, 22.6).value
    assert inside.dtype == torch.float32
    assert float(inside) == float(InBatchLoss(0.2)(x, y, 22.6).value)
    assert InBatchLoss(0.2)(x.bfloat16(), y.bfloat16(), 22.6).value.dtype == torch.float32


def batch(kind, micro_batch):
    """Random texts of 1 to 9 tokens; every fifth response is the same, and the first seven have no history."""
    generator = np.random.default_rng(0)
    x, y, z = (
        [generator.integers(0, PADDING, n).tolist() for n in generator.integers(1, 10, 60)]
        for _ in range(3)
    )
    y[::5] = [[7, 8]] * 12
    examples = store(x, y)
    if kind == "with histories":
        examples = replace(
            examples, history=histories([text if i > 11 else [] for i, text in enumerate(z)])
        )
    return make_step(examples, np.arange(5, 5 + PAIRS), PADDING, Portion(micro_batch=micro_batch))


def in_parts(kind, micro_batch, dropout, scale=1.0):
    """Loss and gradients as training computes them."""
    return computed(
        kind,
        micro_batch,
        dropout,
        partial(forward_backward, backward=lambda x: (scale * x).backward()),
    )


def with_one_graph(kind, micro_batch, dropout):
    """The same parts with the same dropout, all kept in memory: what gradient caching must come to."""

    def both_passes(parts, encode, loss):
        pieces = [encode(part) for part in range(parts)]
        found = loss({name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]})
        found.value.backward()
        return found

    return computed(kind, micro_batch, dropout, both_passes)


def computed(kind, micro_batch, dropout, both_passes):
    torch.manual_seed(0)
    module, pairs = (
        build_module({**KINDS[kind], "dropout": dropout}, PADDING + 1).train(),
        batch(kind, micro_batch),
    )

    def encode(part):
        torch.manual_seed(part)
        own = pairs.parts[part]
        return module.encode_pairs(own.tokens, own.pairs, own.histories)

    def loss(encodings):
        return SummedLoss(InBatchLoss(0.2))(
            encodings, 5.0, pairs.equal, pairs.first, pairs.pairs, pairs.present
        )

    found = both_passes(len(pairs.parts), encode, loss)
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return found, {
        name: each.to_dense() if each.is_sparse else each for name, each in gradients.items()
    }


def assert_same(one, other):
    torch.testing.assert_close(tuple(one[0])[:2], tuple(other[0])[:2])
    assert one[1].keys() == other[1].keys() != set()
    for name in one[1]:
        torch.testing.assert_close(one[1][name], other[1][name], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("micro_batch", [1, 3, 8, 19])
def test_parts_have_the_loss_and_the_gradients_of_the_whole(kind, micro_batch):
    """Also where a part has no history at all."""
    assert len(batch(kind, micro_batch).parts) == -(-PAIRS // micro_batch)
    assert batch(kind, micro_batch).equal.shape[1] == 12, "four equal responses"
    assert_same(in_parts(kind, micro_batch, 0.0), with_one_graph(kind, 0, 0.0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("micro_batch", [0, 6])
def test_dropout_is_the_same_in_both_passes(kind, micro_batch):
    found = in_parts(kind, micro_batch, 0.5)
    assert_same(found, with_one_graph(kind, micro_batch, 0.5))
    assert found[0].value.item() != pytest.approx(
        in_parts(kind, micro_batch, 0.0)[0].value.item(), abs=1e-4
    )


def test_the_loss_may_be_scaled():
    plain, scaled = (in_parts("one text", 7, 0.0, scale)[1] for scale in (1.0, 128.0))
    for name, value in plain.items():
        torch.testing.assert_close(scaled[name], 128 * value, rtol=1e-4, atol=1e-4)


def test_a_run_in_parts_learns_the_same_and_may_go_on_in_others(tmp_path, data):
    def run(name, micro_batch, display=None):
        settings = {"model": {**MODEL, "dropout": 0.0}, "validation": {"examples": 0}}
        stages = [stage(steps=12, schedule="constant", micro_batch=micro_batch)]
        train(recipe(data, stage=stages, **settings), tmp_path / name, display=display)
        return [loss for _, loss in losses(tmp_path / name)]

    whole = run("whole", 0)
    with pytest.raises(CrashError):
        run("parts", 9, At(7, crash))
    assert run("parts", 16) == pytest.approx(whole, abs=2e-4)
    assert whole[-1] < whole[0] - 0.1
