"""Record of a run: metrics, the best model by validation, checkpoints, progress.

Metrics are means between two lines; with figures of speed they tell what a run cost.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rejoinder.encoders import persistence
from rejoinder.errors import InputError, MissingExtraError, RejoinderError
from rejoinder.files import atomic_file, parse_json
from rejoinder.training import run as runs
from rejoinder.training.build import Parts
from rejoinder.training.display import Display, Progress
from rejoinder.training.distributed import Processes, RankZeroFailedError
from rejoinder.training.losses import Loss
from rejoinder.training.recipe import Recipe
from rejoinder.training.run import RunFolder, RunState
from rejoinder.training.stages import Plateau, Stage
from rejoinder.training.validation import Encode


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

    def to_json(
        self, price_per_hour: float | None = None, steps: int | None = None
    ) -> dict[str, Any]:
        """Return plain values, with costs if there is a price.

        With `steps` also the costs of so many at the run's speed.
        """

        def account(seconds: float) -> dict[str, float]:
            return {"seconds": seconds} | (
                {} if price_per_hour is None else {"cost": seconds / 3600 * price_per_hour}
            )

        stages = {name: dataclasses.asdict(speed) for name, speed in self.stages.items()}
        result = {
            "run": self.run,
            **dataclasses.asdict(self.whole),
            "stages": stages,
            **account(self.seconds),
        }
        if steps is not None:
            result["stated"] = {"steps": steps, **account(steps / self.whole.steps_per_second)}
        return result


def run_cost(run: Path) -> RunCost | None:
    """Return the cost of a run, by its metrics.

    None if there are none yet, or the folder is no run.
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


@dataclass(eq=False)
class Recorder:
    """Writes and shows what becomes of a run; only the first process writes."""

    recipe: Recipe
    folder: runs.RunFolder
    processes: Processes
    display: Display
    parts: Parts

    def __post_init__(self) -> None:
        self.state = self.parts.state
        self.meter = Meter(self.parts.state, self.parts.machine.device)
        self._metrics: MetricsLog | None = None

    def open(self) -> None:
        """Open the metrics, without the lines of steps that will be done again."""
        if self.processes.first:
            self._metrics = MetricsLog(self.folder, self.state.step)

    def close(self) -> None:
        """Close the metrics."""
        if self._metrics is not None:
            self._metrics.close()

    def log(self, stage: Stage, rate: float, scale: float | Tensor) -> None:
        """Write the means since the last line, with the last step's learning rate and scale."""
        self.check_finite(stage, rate, weights=False)
        figures = self.meter.take()
        figures["learning_rate"] = rate
        figures["scale"] = _number(scale)
        figures["examples"] = self.state.examples
        figures["seconds"] = self.state.seconds
        self._write(stage, figures)

    def _write(self, stage: Stage, figures: Mapping[str, float]) -> None:
        if self._metrics is not None:
            self._metrics.write(self.state.step, stage.name, figures)

    def validate(self, stage: Stage, rate: float, scale: float | Tensor, encode: Encode) -> bool:
        """Validate and save the model if it is the best so far; return whether it is."""
        self.check_finite(stage, rate)
        self.parts.module.eval()
        validators = self.parts.validators
        factor = _number(scale)
        sets = {name: validator(encode, factor) for name, validator in validators.items()}
        names = next(iter(sets.values()))
        figures = {
            name: float(np.mean([of_data[name] for of_data in sets.values()])) for name in names
        }
        figures["examples"] = sum(validator.examples for validator in validators.values())
        patience = stage.schedule.patience if isinstance(stage.schedule, Plateau) else None
        best = self.state.record_validation(figures, patience)
        if best:
            self.save_model()
        line = {f"valid_{name}": value for name, value in figures.items()}
        if len(sets) > 1:
            for data, of_data in sets.items():
                line |= {f"valid_{data}_{name}": value for name, value in of_data.items()}
        self._write(stage, line)
        shown = ", ".join(f"{name} {value}" for name, value in runs.figure_texts(figures).items())
        self.display.note(
            f"step {self.state.step:,}: validation on {figures['examples']:,} examples"
            f" among {self.recipe.validation.candidates}: {shown}"
            f"{', the best so far' if best else ''}"
        )
        return best

    def save_model(self) -> None:
        """Write the model folder."""
        if not self.processes.first:
            return
        learned = self.parts.learned_scale
        persistence.save(
            self.folder.model,
            self.parts.module,
            self.parts.prepared.tokenizer,
            max_length=self.recipe.text.max_length,
            card=runs.model_card(self.recipe, self.state, self.parts.machine.precision),
            scale=None if learned is None else _number(learned.value),
            overwrite=True,
        )

    def checkpoint(
        self, stage: Stage, rate: float, optimizer: torch.optim.Optimizer | None
    ) -> None:
        """Write a checkpoint; between stages there is no optimiser."""
        self.check_finite(stage, rate)
        self.meter.store()
        if self.processes.first:
            runs.save_checkpoint(
                self.folder.checkpoint,
                self.state,
                self.parts.module,
                optimizer,
                self.parts.machine.scaler.state_dict(),
            )
        self.state.saved_at = self.state.seconds
        self.state.saved_step = self.state.step

    def check_finite(self, stage: Stage, rate: float, *, weights: bool = True) -> None:
        """Stop a run whose loss, or one of whose weights, is no longer a finite number."""
        checked = self.parts.module.parameters() if weights else ()
        if self.meter.is_finite() and all(bool(weight.isfinite().all()) for weight in checked):
            return
        saved = "none" if self.state.saved_step is None else f"{self.state.saved_step:,}"
        error = RejoinderError if self.processes.first else RankZeroFailedError
        raise error(
            f"stage '{stage.name}': loss or weights are no longer finite numbers"
            f" at step {self.state.step:,} (learning rate {rate:.3g});"
            f" lower its learning_rate or set clip_norm, in a new folder;"
            f" step of the last checkpoint: {saved}"
        )

    def show(self, stage: Stage, share: float) -> None:
        """Show the progress of the stage, of whose budget a share is used."""
        self.display.show(
            Progress(
                stage=stage.name,
                share=share,
                step=self.state.step,
                loss=self.meter.loss,
                accuracy=self.meter.accuracy,
                examples_per_second=self.meter.rates()[0],
                seconds_left=self.state.stage_seconds * (1 - share) / share if share else None,
            )
        )


def _number(value: float | Tensor) -> float:
    return float(value.detach() if isinstance(value, Tensor) else value)
