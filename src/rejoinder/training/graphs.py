"""Steps that a card replays: their launches are recorded once, where a batch's shapes return.

A small step launches more than a thousand kernels, each of which takes Python and PyTorch longer
than the card. CUDA graphs launch all of them in one call, but only for tensors at the same places,
with the same shapes. So both passes are recorded for each set of shapes that comes a second time,
and later batches of these shapes are copied to where the recorded one was.

`torch.compile(mode="reduce-overhead")` records such graphs too, after compiling for a minute;
`torch.cuda.make_graphed_callables` takes modules alone, without the loss and the rounding of
weights.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from rejoinder.devices import fill, shapes
from rejoinder.training.data.batches import StepBatch
from rejoinder.training.recipe.losses import Loss

Passes: TypeAlias = Callable[[StepBatch, "float | Tensor"], Loss]
"""Both passes of a step at a scale: gradients are added to the parameters', nothing is updated."""
Replay: TypeAlias = Callable[[], None]  # does what was recorded again
Record: TypeAlias = Callable[[Callable[[], Loss]], "tuple[Replay, Loss]"]
"""Records what is called, whose result a replay writes again."""

SEEN_BEFORE = 1  # batches whose shapes are computed as they come, before they are recorded
MOST_GRAPHS = 64  # that are kept: each took a moment to record
MOST_SHAPES = 10_000  # that are remembered; where none returns, nothing is recorded


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A recorded step."""

    batch: StepBatch  # whose tensors it reads
    replay: Replay
    loss: Loss  # what it writes
    gradients: Mapping[nn.Parameter, Tensor]  # and these, of the parameters that get any


class GraphedPasses:
    """Both passes of a stage's steps, replayed where shapes return.

    A replayed step adds the same gradients as any other, and draws the same dropout. It takes the
    scale from a tensor. All graphs share their memory, and one set of gradients.
    """

    def __init__(
        self,
        passes: Passes,
        parameters: Iterable[nn.Parameter],
        device: torch.device,
        record: Record | None = None,
    ) -> None:
        self._passes = passes
        self._parameters = tuple(parameters)
        self._record = CudaRecorder() if record is None else record
        self._scale = torch.zeros((), device=device)
        self._gradients: dict[nn.Parameter, Tensor] = {}  # of all graphs
        self._recorded: dict[Hashable, RecordedStep] = {}
        self._seen: Counter[Hashable] = Counter()
        self._possible = True  # to record steps

    def __call__(self, batch: StepBatch, scale: float | Tensor) -> Loss:
        """Do both passes of a batch; the parameters have no gradients before.

        The result is valid until the next call.
        """
        key = _key(batch)
        recorded = self._recorded.get(key)
        if recorded is None:
            loss = self._passes(batch, scale)
            if self._returns(key):
                self._remember(key, batch, scale)
            return loss
        fill(recorded.batch, batch)
        self._set_scale(scale)
        _set_gradients(recorded.gradients)
        recorded.replay()
        return recorded.loss

    def _returns(self, key: Hashable) -> bool:
        """Count a batch of some shapes, and return whether they are worth a graph."""
        if not self._possible or len(self._recorded) >= MOST_GRAPHS:
            return False
        if len(self._seen) >= MOST_SHAPES:
            self._seen.clear()
        self._seen[key] += 1
        return self._seen[key] > SEEN_BEFORE and not self._has_sparse_gradients()

    def _has_sparse_gradients(self) -> bool:
        return any(p.grad is not None and p.grad.is_sparse for p in self._parameters)

    def _remember(self, key: Hashable, batch: StepBatch, scale: float | Tensor) -> None:
        """Record the passes of a batch that was just computed, whose gradients stay as they are."""
        computed = {p: p.grad for p in self._parameters if p.grad is not None}
        for parameter in computed:
            if parameter not in self._gradients:
                self._gradients[parameter] = torch.zeros_like(parameter)
        gradients = {parameter: self._gradients[parameter] for parameter in computed}

        def again() -> Loss:
            torch._foreach_zero_(list(gradients.values()))
            return self._passes(batch, scale if isinstance(scale, Tensor) else self._scale)

        self._set_scale(scale)
        _set_gradients(gradients)
        try:
            replay, loss = self._record(again)
            self._recorded[key] = RecordedStep(batch, replay, loss, gradients)
        except RuntimeError as error:  # of PyTorch: something waits for the card, for example
            self._possible = False
            reason = str(error).splitlines()[0]
            warnings.warn(
                f"steps cannot be recorded as CUDA graphs and are computed one by one: {reason}",
                stacklevel=2,
            )
        finally:
            _set_gradients(computed)

    def _set_scale(self, scale: float | Tensor) -> None:
        if not isinstance(scale, Tensor):  # a learned one is a parameter
            self._scale.fill_(scale)


def _set_gradients(gradients: Mapping[nn.Parameter, Tensor]) -> None:
    for parameter, gradient in gradients.items():
        parameter.grad = gradient


class CudaRecorder:
    """Records as CUDA graphs, which share their memory: one runs at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], Loss]) -> tuple[Replay, Loss]:
        """Record some work."""
        graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        before = generator.clone_state()
        try:
            # the thread that makes batches goes on copying them
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                loss = work()
        except RuntimeError:
            generator.graphsafe_set_state(before)  # it still waits for the graph's end
            raise
        return graph.replay, loss


def _key(batch: StepBatch) -> Hashable:
    """Return all that a recorded step has fixed: shapes, and numbers that are no tensors."""
    pairs = tuple(part.pairs for part in batch.parts)
    return shapes(batch), tuple(batch.present), pairs, batch.pairs, batch.first, batch.weight
