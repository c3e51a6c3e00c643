"""Hard negatives of a stage: when they are mined, for which pairs, and the table that is kept of them.

A stage is cut into windows; at the beginning of each, negatives are mined with the model as it then is, for the pairs
of that window alone. The table is a file of the run's folder, named by the step, so that a run that goes on has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from rejoinder.errors import InputError
from rejoinder.files import DIGEST, atomic_file
from rejoinder.training.checkpoint import tensor_digest
from rejoinder.training.display import Display
from rejoinder.training.mining import Mined, Miner
from rejoinder.training.mixing import MixedOrder
from rejoinder.training.recipe import HardNegatives
from rejoinder.training.tokens import Rows

STREAM = 1 << 20
"""Tells the draws of pools from those of the orders of examples, which have the same seed."""


class Window(NamedTuple):
    """Batches of a stage that share a table: from `start`, not including `stop` (None: to the end of the stage)."""

    start: int
    stop: int | None


@dataclass(frozen=True, slots=True)
class Table:
    """Hard negatives of examples.

    Attributes:
        rows: the examples, ascending (n,).
        negatives: examples whose responses are the negatives of each (n, k).
    """

    rows: Rows
    negatives: Rows

    def of(self, rows: Rows) -> Rows:
        """Those of the given examples: (len(rows), k).

        Raises:
            InputError: there are none for an example.
        """
        places = np.searchsorted(self.rows, rows).clip(max=len(self.rows) - 1)
        if (self.rows[places] != rows).any():
            raise InputError("the table of hard negatives is of another run; name another folder to train again")
        return self.negatives[places]


class Tables:
    """The tables of a stage.

    Args:
        config: the stage's.
        order: which examples its batches have.
        steps: its batches; None if its budget is in minutes.
        folder: where tables are kept.
        seed: numbers that the pools are a function of.
    """

    def __init__(
        self, config: HardNegatives, order: MixedOrder, steps: int | None, folder: Path, seed: tuple[int, ...]
    ) -> None:
        self._config, self._order, self._steps, self._folder, self._seed = config, order, steps, folder, seed
        self._every = config.every_steps
        if config.every_epochs is not None:
            self._every = max(1, round(config.every_epochs * order.batches_per_epoch))

    def window(self, stage_step: int) -> Window:
        """The window that a batch of the stage is in."""
        if self._every is None:
            return Window(0, None)
        start = stage_step - stage_step % self._every
        return Window(start, start + self._every)

    def load(self, step: int, stage_step: int) -> Table | None:
        """The table of the window, or None if it is to be mined now.

        Args:
            step: batches done in all stages.
            stage_step: batches done in this stage.

        Raises:
            InputError: it is missing in the middle of a window, or damaged.
        """
        path = self._path(step, stage_step)
        if path.exists():
            return self._read(path)
        if stage_step == self.window(stage_step).start:
            return None
        raise InputError(f"{path} is missing, so the run cannot go on as it began; name another folder to train again")

    def mine(self, step: int, stage_step: int, miner: Miner, display: Display, pause: Callable[[], object]) -> Table:
        """Mine the table of the window that begins now, and write it.

        Args:
            step: batches done in all stages.
            stage_step: batches done in this stage.
            miner: finds them.
            display: shows progress.
            pause: called now and then on the way; may raise.
        """
        window = self.window(stage_step)
        rows = self._rows(window)
        generator = np.random.default_rng([*self._seed, window.start, STREAM])
        drawn = self._order.sample(self._config.pool, generator)
        with display.track("Mining hard negatives", len(rows) + len(drawn), "texts") as advance:

            def report(done: int) -> None:
                advance(done)
                pause()

            mined = miner(rows, drawn, report)
        table = Table(rows, mined.negatives)
        tensors = {"rows": torch.from_numpy(table.rows), "negatives": torch.from_numpy(table.negatives)}
        with atomic_file(self._path(step, stage_step)) as part:
            save_file(tensors, part, {DIGEST: tensor_digest(tensors)})
        each = f"{self._config.per_pair} each{_above(mined)}"
        display.note(f"step {step:,}: hard negatives for {len(rows):,} pairs, {each}")
        return table

    def forget_others(self, step: int, stage_step: int) -> None:
        """Remove all tables but that of the present window."""
        kept = self._path(step, stage_step)
        for path in self._folder.glob("step-*.safetensors"):
            if path != kept:
                path.unlink()

    def _path(self, step: int, stage_step: int) -> Path:
        """The file of the window, by the step of the run at which it begins."""
        return self._folder / f"step-{step - stage_step + self.window(stage_step).start:08}.safetensors"

    def _rows(self, window: Window) -> Rows:
        """The examples of the window's batches, ascending; all examples where it goes over them more than once."""
        examples, size = sum(self._order.sizes), self._order.batch_size
        ends = [end for end in (window.stop, self._steps) if end is not None]
        if not ends or (min(ends) - window.start) * size >= examples:
            return np.arange(examples)
        return np.unique(np.concatenate([self._order.rows(step) for step in range(window.start, min(ends))]))

    def _read(self, path: Path) -> Table:
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in ("rows", "negatives")}
            if metadata.get(DIGEST, tensor_digest(tensors)) != tensor_digest(tensors):  # earlier versions wrote none
                raise ValueError("it was altered after it was written")
            table = Table(tensors["rows"].numpy(), tensors["negatives"].numpy())
            if table.negatives.shape != (len(table.rows), self._config.per_pair):
                raise ValueError(f"negatives of shape {table.negatives.shape} for {len(table.rows)} pairs")
            return table
        except (SafetensorError, ValueError, KeyError, OSError) as error:
            raise InputError(
                f"{path}: not a whole table of hard negatives ({error}); name another folder to train again"
            ) from None


def _above(mined: Mined) -> str:
    """What is to be said of those above the limit."""
    return f", {mined.above / mined.negatives.size:.1%} of them above the limit" if mined.above else ""
