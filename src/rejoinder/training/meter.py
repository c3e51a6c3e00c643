"""Means and rates between two lines of metrics."""

from __future__ import annotations

import torch

from rejoinder.training.losses import Loss
from rejoinder.training.state import RunState


class Meter:
    """Sums up losses on the device, so that nothing waits for a GPU between two lines.

    Args:
        state: the run's; an interrupted run goes on summing where it stopped.
        device: where the losses are.
    """

    def __init__(self, state: RunState, device: torch.device) -> None:
        self.state = state
        self._names = tuple(state.sums)
        self._sums = torch.tensor(list(state.sums.values()), dtype=torch.float64, device=device)
        self._examples, self._tokens, self._seconds = 0, 0, 0.0
        self._last_rates = 0.0, 0.0
        self.loss, self.accuracy = float("nan"), 0.0

    def add(self, pairs: int, tokens: int, loss: Loss, seconds: float) -> None:
        """Count a step.

        Args:
            pairs: what was trained on.
            tokens: real tokens of those pairs.
            loss: what came of it.
            seconds: time since the step before, without validation and checkpoints.
        """
        self.state.summed += 1
        values = {"loss": loss.value.detach(), "accuracy": loss.accuracy, **loss.figures}
        if not self._names:
            self._names, self._sums = tuple(values), self._sums.new_zeros(len(values))
        self._sums += torch.stack([values[name] for name in self._names])
        self._examples += pairs
        self._tokens += tokens
        self._seconds += seconds

    def is_finite(self) -> bool:
        """Whether every loss so far was a finite number."""
        return bool(self._sums.isfinite().all())

    def store(self) -> None:
        """Put the sums into the state, for a checkpoint."""
        self.state.sums = dict(zip(self._names, self._sums.tolist(), strict=True))

    def rates(self) -> tuple[float, float]:
        """Pairs and real tokens per second since the last line; before anything is counted, those of the line."""
        if self._seconds <= 0:
            return self._last_rates
        return self._examples / self._seconds, self._tokens / self._seconds

    def take(self) -> dict[str, float]:
        """Means and rates since the last call; counts from 0 again."""
        means = {name: value / self.state.summed for name, value in zip(self._names, self._sums.tolist(), strict=True)}
        self.loss, self.accuracy = means["loss"], means["accuracy"]
        examples, tokens = self._last_rates = self.rates()
        self.state.summed = 0
        self._sums.zero_()
        self._examples, self._tokens, self._seconds = 0, 0, 0.0
        return means | {"examples_per_second": examples, "tokens_per_second": tokens}
