"""A batch in parts has the loss and the gradients of the whole one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rejoinder.models.convert import Convert
from rejoinder.models.families import build_module
from rejoinder.training.batches import Portion, StepBatch, make_step
from rejoinder.training.compute import Encodings, forward_backward
from rejoinder.training.display import Display
from rejoinder.training.loop import train
from rejoinder.training.losses import InBatchLoss, Loss
from rejoinder.training.tokens import TokenStore
from tests.training.test_batches import store
from tests.training.test_loop import At, CrashError, crash, losses
from tests.training.tiny import MODEL, recipe, stage

PADDING = 50
PAIRS = 20


def examples(count: int) -> TokenStore:
    """Random texts of 1 to 9 tokens; every fifth response is the same."""
    generator = np.random.default_rng(0)
    sides = [[generator.integers(0, PADDING, generator.integers(1, 10)).tolist() for _ in range(count)] for _ in "xy"]
    sides[1][::5] = [[7, 8]] * len(sides[1][::5])
    return store(*sides)


def model(dropout: float = 0.0) -> Convert:
    torch.manual_seed(0)
    return build_module({**MODEL, "dropout": dropout}, PADDING + 1).train()


def batch(micro_batch: int) -> StepBatch:
    return make_step(examples(60), np.arange(5, 5 + PAIRS), PADDING, Portion(micro_batch=micro_batch))


def encode(module: Convert, pairs: StepBatch, part: int) -> Encodings:
    torch.manual_seed(part)
    x, y = module(pairs.parts[part].tokens, contexts=pairs.parts[part].pairs)
    return {"context": x, "response": y}


def loss(pairs: StepBatch, encodings: Encodings) -> Loss:
    return InBatchLoss(0.2)(encodings["context"], encodings["response"], 5.0, pairs.equal)


def gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def in_parts(module: Convert, micro_batch: int) -> tuple[Loss, dict[str, Tensor]]:
    pairs = batch(micro_batch)
    found = forward_backward(len(pairs.parts), partial(encode, module, pairs), partial(loss, pairs))
    return found, gradients(module)


def with_one_graph(module: Convert, micro_batch: int) -> tuple[Loss, dict[str, Tensor]]:
    """The same parts with the same dropout, all kept in memory: what gradient caching must come to."""
    pairs = batch(micro_batch)
    pieces = [encode(module, pairs, part) for part in range(len(pairs.parts))]
    found = loss(pairs, {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]})
    found.value.backward()
    return found, gradients(module)


def assert_same(one: tuple[Loss, dict[str, Tensor]], other: tuple[Loss, dict[str, Tensor]]) -> None:
    torch.testing.assert_close(tuple(one[0]), tuple(other[0]))
    assert one[1].keys() == other[1].keys() != set()
    for name in one[1]:
        torch.testing.assert_close(one[1][name], other[1][name], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("micro_batch", [1, 3, 8, 10, 19])
def test_parts_have_the_loss_and_the_gradients_of_the_whole(micro_batch: int) -> None:
    assert len(batch(micro_batch).parts) == -(-PAIRS // micro_batch)
    assert batch(micro_batch).equal.shape[1] == 12, "four equal responses"
    assert_same(in_parts(model(), micro_batch), with_one_graph(model(), 0))


@pytest.mark.parametrize("micro_batch", [0, 4, 6])
def test_dropout_is_the_same_in_both_passes(micro_batch: int) -> None:
    found = in_parts(model(0.5), micro_batch)
    assert_same(found, with_one_graph(model(0.5), micro_batch))
    assert found[0].value.item() != pytest.approx(in_parts(model(), micro_batch)[0].value.item(), abs=1e-4)


def test_a_part_without_gradient_and_other_matrices_are_no_obstacle() -> None:
    """As a part of pairs that have no history, whose encoding is zero."""
    weight = nn.Parameter(torch.ones(2))

    def encode(part: int) -> Encodings:
        history = torch.zeros(3, 2) if part == 0 else weight * torch.ones(3, 2)
        return {"context": weight * (part + 1.0) * torch.ones(3, 2), "history": history, "fixed": torch.ones(1, 2)}

    def loss(encodings: Encodings) -> Loss:
        assert {name: len(matrix) for name, matrix in encodings.items()} == {"context": 6, "history": 6, "fixed": 2}
        return Loss((encodings["context"] * encodings["history"]).sum(), torch.zeros(()))

    forward_backward(2, encode, loss)
    assert weight.grad.tolist() == [12.0, 12.0]  # 2 w · w in three rows


def test_the_loss_may_be_scaled() -> None:
    module, scaled = model(), model()
    pairs = batch(7)
    in_parts(module, 7)
    forward_backward(3, partial(encode, scaled, pairs), partial(loss, pairs), lambda value: (128 * value).backward())
    for name, value in gradients(module).items():
        torch.testing.assert_close(gradients(scaled)[name], 128 * value, rtol=1e-4, atol=1e-4)


def test_a_run_in_parts_learns_the_same_and_may_go_on_in_others(tmp_path: Path, data: Path) -> None:
    def run(name: str, micro_batch: int, display: Display | None = None) -> list[float]:
        settings = {"model": {**MODEL, "dropout": 0.0}, "validation": {"examples": 0}}
        stages = [stage(steps=12, schedule="constant", micro_batch=micro_batch)]
        train(recipe(data, stage=stages, **settings), tmp_path / name, display=display)
        return losses(tmp_path / name)

    whole = [loss for _, loss in run("whole", 0)]
    with pytest.raises(CrashError):
        run("parts", 9, At(7, crash))
    assert [loss for _, loss in run("parts", 16)] == pytest.approx(whole, abs=2e-4)
    assert whole[-1] < whole[0] - 0.1
