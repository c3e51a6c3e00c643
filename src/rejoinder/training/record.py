"""What a run writes and shows: metrics, the best model by validation, checkpoints, progress."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from rejoinder.encoders import persistence
from rejoinder.errors import RejoinderError
from rejoinder.training import run as runs
from rejoinder.training.build import Parts
from rejoinder.training.display import Display, Progress
from rejoinder.training.distributed import Processes, RankZeroFailedError
from rejoinder.training.metrics import Meter, MetricsLog
from rejoinder.training.recipe import Plateau, Recipe, Stage
from rejoinder.training.validation import Encode


class Recorder:
    """Writes and shows what becomes of a run; only the first process writes."""

    def __init__(
        self,
        recipe: Recipe,
        folder: runs.RunFolder,
        processes: Processes,
        display: Display,
        parts: Parts,
    ) -> None:
        self.recipe = recipe
        self.folder = folder
        self.processes = processes
        self.display = display
        self.parts = parts
        self.state = parts.state
        self.meter = Meter(parts.state, parts.machine.device)
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
