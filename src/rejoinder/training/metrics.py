"""Metrics of a run: validation, the means of the loss, the speed and what it cost.

Validation is 1-of-N over the validation split, on tokens. Means are those between two lines of
metrics.jsonl.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rejoinder.encoders.families import Packing
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.evaluation.ranking import ranks
from rejoinder.files import atomic_file
from rejoinder.json_parsing import parse_json
from rejoinder.networks.layers import scores_of
from rejoinder.training.data.batches import PairBatch, make_batch
from rejoinder.training.data.tokens import TokenRows, TokenStore
from rejoinder.training.distributed import Processes
from rejoinder.training.recipe.losses import Loss
from rejoinder.training.recipe.settings import Validation
from rejoinder.training.run.folder import RunFolder
from rejoinder.training.run.state import RunState

PAIRS_AT_ONCE = 512  # pairs that are encoded in one call of the model, or one group if that is more

Encode = Callable[[PairBatch], tuple[Tensor, Tensor]]
"""Pairs -> contexts (K, d) or (K, m, d) and responses (K, d); where contexts join candidates:
scores (K, C), twice."""


def drawn(store: TokenStore, config: Validation) -> TokenRows:
    """Return which examples a store is validated on, the same each time.

    Raises:
        InputError: there are fewer of them than candidates in a group.
    """
    limit = min(len(store), config.examples)
    if not len(store):
        raise InputError(
            "the data has no validation examples;"
            " set validation.examples = 0 to train without validation, or give more data"
        )
    if limit < config.candidates:
        raise InputError(
            f"{limit} validation examples make no group of {config.candidates};"
            " set validation.candidates lower,"
            " or validation.examples = 0 to train without validation"
        )
    return np.random.default_rng(0).permutation(len(store))[: config.examples]


class Validator:
    """Ranks each response of a group of N examples against the others of its group.

    Several processes share the groups. The groups are the same each time, drawn with a fixed seed;
    candidates of the first fill up the last. A response whose tokens equal the right one's is right
    too; any other that ties counts against the model.
    """

    def __init__(
        self,
        store: TokenStore,
        config: Validation,
        padding_id: int,
        processes: Processes | None = None,
        packing: Packing = "together",
        segments: bool = True,
    ) -> None:
        self._packing = packing
        self._segments = segments
        self.candidates = config.candidates
        order = drawn(store, config)
        self.examples = len(order)
        # in whole groups
        order = np.concatenate([order, order[: -len(order) % config.candidates]])
        together = max(1, PAIRS_AT_ONCE // config.candidates) * config.candidates
        self._store = store
        self._padding_id = padding_id
        self._processes = processes or Processes()
        self._parts = [order[start : start + together] for start in range(0, len(order), together)]

    def __call__(self, encode: Encode, scale: float = 1.0) -> dict[str, float]:
        """Return recall at 1, mean reciprocal rank, and the loss among the group's candidates.

        The loss is without smoothing.
        """
        parts = self._processes.parallel_map(
            lambda rows: self._ranks(rows, encode, scale), self._parts
        )
        right_ranks = np.concatenate([ranked for ranked, _ in parts])[: self.examples]
        losses = np.concatenate([lost for _, lost in parts])[: self.examples]
        return {
            "recall@1": float((right_ranks == 1).mean()),
            "mrr": float((1 / right_ranks).mean()),
            "loss": float(losses.mean()),
        }

    @torch.no_grad()
    def _ranks(
        self, rows: TokenRows, encode: Encode, scale: float
    ) -> tuple[TokenRows, npt.NDArray[np.float64]]:
        n = self.candidates
        scores = (
            self._joined(rows, encode) if self._packing == "joined" else self._encoded(rows, encode)
        )
        hashes = self._store.response_hash[rows].reshape(-1, n)
        labels = np.tile(np.arange(n), len(hashes))
        equal = (hashes[:, :, None] == hashes[:, None, :]).reshape(-1, n)
        own = scores[np.arange(len(scores)), labels][:, None]
        # other examples' responses that are as right
        wrong = equal & (np.arange(n) != labels[:, None])
        counted = np.where(wrong, -np.inf, scale * (scores - own)).astype(np.float64)
        highest = counted.max(axis=1, keepdims=True)
        losses = highest[:, 0] + np.log(np.exp(counted - highest).sum(axis=1))
        return ranks(scores, labels, equal), losses

    def _encoded(self, rows: TokenRows, encode: Encode) -> npt.NDArray[np.float32]:
        """Return the scores of each response of a group for each context of it, (rows, n)."""
        batch = make_batch(
            self._store,
            rows,
            self._padding_id,
            packing=self._packing,
            segments=self._segments,
        )
        encoded = encode(batch)
        x, y = (torch.unflatten(h.float().cpu(), 0, (-1, self.candidates)) for h in encoded)
        scores = [scores_of(contexts, responses) for contexts, responses in zip(x, y, strict=True)]
        return torch.cat(scores).numpy()

    def _joined(self, rows: TokenRows, encode: Encode) -> npt.NDArray[np.float32]:
        """Return the same for a model that reads each context with each response."""
        n = self.candidates
        column = np.arange(len(rows)) % n
        # the right response comes first, the others after it
        others = (column[:, None] + np.arange(1, n)) % n
        negatives = rows.reshape(-1, n)[np.arange(len(rows))[:, None] // n, others]
        scores = np.empty((len(rows), n), np.float32)
        size = max(1, PAIRS_AT_ONCE // n)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            batch = make_batch(
                self._store,
                rows[part],
                self._padding_id,
                negatives[part].reshape(-1),
                self._packing,
                segments=self._segments,
            )
            pair_scores = encode(batch)[0].float().cpu().numpy()
            np.put_along_axis(
                scores[part],
                np.concatenate([column[part, None], others[part]], axis=1),
                pair_scores,
                axis=1,
            )
        return scores


class Meter:
    """Sums losses on their device, so that no GPU is waited for.

    `loss` and `accuracy` are of the last line. Of several losses `loss` is that of the context, as
    in validation, not their sum.
    """

    def __init__(self, state: RunState, device: torch.device) -> None:
        self.state = state
        self._names = tuple(state.sums)
        self._sums = torch.tensor(list(state.sums.values()), dtype=torch.float64, device=device)
        self._examples = 0
        self._tokens = 0
        self._seconds = 0.0
        self._last_rates = 0.0, 0.0
        self.loss = float("nan")
        self.accuracy = 0.0

    def add(self, pairs: int, tokens: int, loss: Loss, seconds: float) -> None:
        """Count a step that took these seconds, validation and checkpoints left out."""
        self.state.summed += 1
        values = {"loss": loss.value.detach(), "accuracy": loss.accuracy, **loss.figures}
        if not self._names:
            self._names = tuple(values)
            self._sums = self._sums.new_zeros(len(values))
        self._sums += torch.stack([values[name] for name in self._names])
        self._examples += pairs
        self._tokens += tokens
        self._seconds += seconds

    def wait(self, seconds: float) -> None:
        """Count seconds in which the steps so far were done."""
        self._seconds += seconds

    def is_finite(self) -> bool:
        """Return whether every loss so far was a finite number."""
        return bool(self._sums.isfinite().all())

    def store(self) -> None:
        """Put the sums into the state, for a checkpoint."""
        self.state.sums = dict(zip(self._names, self._sums.tolist(), strict=True))

    def rates(self) -> tuple[float, float]:
        """Return pairs and real tokens per second since the last line.

        Before anything is counted, they are the last line's.
        """
        if self._seconds <= 0:
            return self._last_rates
        return self._examples / self._seconds, self._tokens / self._seconds

    def take(self) -> dict[str, float]:
        """Return means and rates since the last call, and start again from 0."""
        means = {
            name: value / self.state.summed
            for name, value in zip(self._names, self._sums.tolist(), strict=True)
        }
        self.loss = means.get("loss_context", means["loss"])
        self.accuracy = means["accuracy"]
        examples, tokens = self._last_rates = self.rates()
        self.state.summed = 0
        self._sums.zero_()
        self._examples = 0
        self._tokens = 0
        self._seconds = 0.0
        return means | {"examples_per_second": examples, "tokens_per_second": tokens}


class MetricsLog:
    """Writes metrics.jsonl and TensorBoard's files.

    Lines after `step`, which will be done again, are removed.
    """

    def __init__(self, folder: RunFolder, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("training", "train") from None
        if folder.metrics.exists():
            kept = [line for line in read_metrics(folder.metrics) if line["step"] <= step]
            with atomic_file(folder.metrics) as part:
                part.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        self._lines = folder.metrics.open("a", encoding="utf-8")
        purge = step + 1 if folder.tensorboard.exists() else None
        # TensorBoard reads a run's files by name, which begins with the second of their creation:
        # two of one second would be read in any order, and the purge might come first.
        while list(folder.tensorboard.glob(f"events.out.tfevents.{int(time.time()):010d}.*")):
            time.sleep(0.02)
        self._board = SummaryWriter(str(folder.tensorboard), purge_step=purge, flush_secs=30)

    def write(self, step: int, stage: str, values: Mapping[str, float]) -> None:
        """Write one line; TensorBoard gets the numbers under their names."""
        self._lines.write(json.dumps({"step": step, "stage": stage, **values}) + "\n")
        self._lines.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def close(self) -> None:  # noqa: D102
        self._lines.close()
        self._board.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return all whole lines of a metrics.jsonl; a last one that was cut short is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [_parsed(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    try:
        values: dict[str, Any] = parse_json(line)
        numbers = [value for name, value in values.items() if name != "stage"]
        plain = (
            all(type(value) in (int, float) for value in numbers) and type(values["step"]) is int
        )
        if not plain or not isinstance(values["stage"], str):
            raise ValueError("not a step, a stage and numbers")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{where}: damaged ({type(error).__name__}: {error}); take the line out"
        ) from None
    return values


@dataclass(frozen=True, slots=True)
class Speed:
    """Batches of a run or a stage, and how many a second without validation and checkpoints."""

    steps: int
    steps_per_second: float


@dataclass(frozen=True, slots=True)
class RunCost:
    """Cost of a run so far: the columns of the paper's table of ablations (CONVERT, Table 4)."""

    run: str  # its folder
    whole: Speed
    stages: dict[str, Speed]  # by name, in order
    seconds: float  # validation and checkpoints included

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        stages = {name: dataclasses.asdict(speed) for name, speed in self.stages.items()}
        speed = dataclasses.asdict(self.whole)
        return {"run": self.run, **speed, "stages": stages, "seconds": self.seconds}


def run_cost(run: Path) -> RunCost | None:
    """Return the cost of a run, by its metrics.

    None if there are none yet, or the folder is not a run.
    """
    lines = read_metrics(RunFolder(run).metrics)
    stages: dict[str, tuple[int, float]] = {}
    step = examples = 0
    for line in lines:
        if not {"examples_per_second", "examples"} <= line.keys():  # a line of validation
            continue
        done = line["step"] - step
        pairs = line["examples"] - examples
        step = line["step"]
        examples = line["examples"]
        if speed := line["examples_per_second"]:
            steps, seconds = stages.get(line["stage"], (0, 0.0))
            stages[line["stage"]] = steps + done, seconds + pairs / speed
    if not stages:
        return None
    steps = sum(done for done, _ in stages.values())
    seconds = sum(taken for _, taken in stages.values())
    speeds = {stage: Speed(steps, steps / seconds) for stage, (steps, seconds) in stages.items()}
    whole = max(line["seconds"] for line in lines if "seconds" in line)
    return RunCost(str(run), Speed(steps, steps / seconds), speeds, whole)
