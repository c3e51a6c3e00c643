"""The training loop: stages, steps, validation, checkpoints, written out."""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import torch
from torch import Tensor

from rejoinder.errors import InputError, RejoinderError
from rejoinder.memory import keep_memory
from rejoinder.models import persistence
from rejoinder.models.packing import TokenBatch
from rejoinder.training.batches import PairBatch, batches
from rejoinder.training.budget import run_share, stage_budget
from rejoinder.training.checkpoint import LoadedCheckpoint, load_checkpoint
from rejoinder.training.compute import set_up, without_denormals
from rejoinder.training.display import Display, Silent, Standing
from rejoinder.training.hard_negatives import Table, Tables
from rejoinder.training.init import copy_initial_weights
from rejoinder.training.keeper import Keeper
from rejoinder.training.losses import InBatchLoss
from rejoinder.training.meter import Meter
from rejoinder.training.metrics import MetricsLog
from rejoinder.training.mining import Miner
from rejoinder.training.mixing import MixedOrder
from rejoinder.training.optimization import build_optimizer, clip_gradients, prepare_stage, set_learning_rate
from rejoinder.training.prepare import Prepared, prepare
from rejoinder.training.recipe import Recipe, Stage
from rejoinder.training.run_folder import RunFolder, open_run
from rejoinder.training.schedules import Progress, learning_rate, score_scale
from rejoinder.training.state import RunState
from rejoinder.training.summary import RunSummary, load_summary, save_summary
from rejoinder.training.validation import Validator

Clock = Callable[[], float]


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C, or a request to terminate; a checkpoint has been written. The message says how to go on."""


def train(
    recipe: Recipe, run: str | Path, *, display: Display | None = None, clock: Clock = time.monotonic
) -> RunSummary:
    """Train as the recipe says, or continue where an earlier process stopped.

    On a CPU, a run whose budgets are in steps or epochs gives the same weights bit for bit, whether it was
    interrupted or not, given the same number of threads.

    Args:
        recipe: what to do (see `recipe_files.load_recipe`).
        run: folder for everything that comes out.
        display: shows progress; None shows nothing.
        clock: seconds from any fixed moment.

    Returns:
        What came out. A finished run is left as it is.

    Raises:
        InputError: recipe, data and folder do not fit each other.
        RejoinderError: the loss is no longer a finite number; the last checkpoint stays.
        TrainingInterrupted: Ctrl-C; a checkpoint has been written.
    """
    display = display or Silent()
    with open_run(Path(run), recipe) as folder:
        if folder.summary.exists():
            return load_summary(folder.summary, folder.path, folder.model)
        keep_memory()
        fabric, precision = set_up(recipe.compute)
        _check_stages(recipe)
        prepared = prepare(recipe, folder.tokens, display)
        with closing(display):
            trainer = _Trainer(recipe, folder, prepared, fabric, precision, display, clock)
            with MetricsLog(folder, trainer.state.step) as metrics, _interrupts(display) as stop, without_denormals():
                trainer.run(metrics, stop)
            summary = _summary(recipe, folder, trainer.state, precision)
        save_summary(summary, folder.summary)
        return summary


class _Trainer:
    """One run in one process."""

    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        prepared: Prepared,
        fabric: Any,
        precision: str,
        display: Display,
        clock: Clock,
    ) -> None:
        self.recipe, self.folder, self.prepared = recipe, folder, prepared
        self.fabric, self.display, self.clock = fabric, display, clock
        torch.manual_seed(recipe.seed)
        self.module = persistence.build_module(recipe.model, prepared.tokenizer.rows)
        if recipe.init.model and not folder.checkpoint.exists():
            copy_initial_weights(self.module, recipe.init)
        fabric.to_device(self.module)
        self.loss = InBatchLoss(recipe.loss.smoothing)
        self.orders = [
            MixedOrder(prepared.sizes, recipe.data.shares, stage.batch_size, (recipe.seed, number))
            for number, stage in enumerate(recipe.stage)
        ]
        pairs = zip(recipe.stage, self.orders, strict=True)
        self.budgets = [stage_budget(stage, order.batches_per_epoch) for stage, order in pairs]
        padding_id = self.module.padding_id
        validator = Validator(prepared.valid, recipe.validation, padding_id) if prepared.valid is not None else None
        self.loaded = load_checkpoint(folder.checkpoint)
        self.state = self._resume(self.loaded) if self.loaded else RunState(data=prepared.digest)
        self.meter = Meter(self.state, fabric.device)
        self.keeper = Keeper(recipe, folder, self.state, self.module, prepared.tokenizer, validator, precision)
        self.optimizer: Any = None
        self.rate, self.scale, self.counted_to = 0.0, 0.0, 0.0

    def _resume(self, loaded: LoadedCheckpoint) -> RunState:
        if loaded.state.data != self.prepared.digest:
            raise InputError(
                f"{self.folder.path}: the examples in {self._places()} are not those that the run was started "
                "with; give those, or name another folder"
            )
        loaded.restore_module(self.module)
        loaded.restore_random()
        self.fabric.strategy.precision.load_state_dict(loaded.scaler)
        self.display.note(f"Continuing {self.folder.path} at step {loaded.state.step:,}")
        return loaded.state

    def _places(self) -> str:
        return " and ".join([self.recipe.data.train, *(mixed.train for mixed in self.recipe.data.mix)])

    def run(self, metrics: MetricsLog, stop: threading.Event) -> None:
        """Train to the end.

        Args:
            metrics: where lines go.
            stop: once it is set, a checkpoint is written and TrainingInterrupted raised.
        """
        self.metrics, self.stop = metrics, stop
        while self.state.stage < len(self.recipe.stage):
            self._stage(self.recipe.stage[self.state.stage])

    def _stage(self, stage: Stage) -> None:
        """One stage, from wherever the state stands in it."""
        state = self.state
        prepare_stage(self.module, stage)
        optimizer = build_optimizer(self.module, stage)
        if self.loaded and state.stage_step:
            self.loaded.restore_optimizer(self.module, optimizer)
        self.loaded = None  # its tensors are not needed any more
        self.optimizer = self.fabric.setup_optimizers(optimizer)
        self.counted_to = self.clock()
        if self.recipe.init.model and self.keeper.validator is not None and state.best is None:
            self._validate(stage)  # the model to start from: what comes out is no worse
            self._checkpoint(stage)
        tables = self._tables(stage)
        while self._goes_on():
            stop = None if tables is None else tables.window(state.stage_step).stop
            with closing(self._batches(stage, tables, stop)) as stream:
                while self._goes_on() and (stop is None or state.stage_step < stop):
                    self._step(stage, next(stream))
                    self._after_step(stage)
        self._finish_stage(stage)

    def _goes_on(self) -> bool:
        """Whether the stage has budget left, and has not stalled."""
        return self._share() < 1 and not self.keeper.stalled()

    def _batches(self, stage: Stage, tables: Tables | None, stop: int | None) -> Generator[PairBatch, None, None]:
        """The stage's batches from where it stands to `stop`, with hard negatives if there are `tables`."""
        further = None if tables is None else self._table(stage, tables).of
        order, padding_id = self.orders[self.state.stage], self.module.padding_id
        return batches(self.prepared.train, order, padding_id, self.state.stage_step, stop, further)

    def _tables(self, stage: Stage) -> Tables | None:
        """The stage's tables of hard negatives; None if it has none."""
        if stage.hard_negatives is None:
            return None
        number, budget = self.state.stage, self.budgets[self.state.stage]
        steps = None if budget.in_seconds else int(budget.amount)
        seed = (self.recipe.seed, number)
        return Tables(stage.hard_negatives, self.orders[number], steps, self.folder.hard_negatives, seed)

    def _table(self, stage: Stage, tables: Tables) -> Table:
        """The table of hard negatives for the next batches, mined now if they begin a window."""
        state = self.state
        table = tables.load(state.step, state.stage_step)
        if table is None:
            assert stage.hard_negatives is not None  # there are tables
            self.module.eval()
            store, padding_id = self.prepared.train, self.module.padding_id
            miner = Miner(store, stage.hard_negatives, self._encode, self._encode_responses, padding_id)
            pause = functools.partial(self._stop_if_asked, stage)
            table = tables.mine(state.step, state.stage_step, miner, self.display, pause)
            self._count_time()
            self._checkpoint(stage)  # from here on no earlier table is needed
            tables.forget_others(state.step, state.stage_step)
        return table

    def _step(self, stage: Stage, batch: PairBatch) -> None:
        """Forward, loss, backward, update."""
        state, share = self.state, self._share()
        self.rate = learning_rate(stage.schedule, stage.learning_rate, Progress(state.stage_step, share))
        whole = Progress(state.step, run_share(self.budgets, state.stage, share))
        self.scale = score_scale(self.recipe.scale, self.module.output_size, whole)
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        x, y = self._encode(batch)
        equal = batch.equal.to(x.device) if self.recipe.loss.mask_equal_responses else None
        loss = self.loss(x, y, self.scale, equal)
        self.fabric.backward(loss.value)
        self._clip(stage)
        set_learning_rate(self.optimizer.optimizer, self.rate)
        self.optimizer.step()
        state.step += 1
        state.stage_step += 1
        state.examples += batch.pairs
        state.tokens += batch.tokens.real_tokens
        self.meter.add(batch, loss, self._count_time())

    def _encode(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """h_x and h_y of a batch, in the run's precision."""
        with self.fabric.autocast():
            x, y = self.module(batch.tokens.to(self.fabric.device), contexts=batch.pairs)
        return x, y

    def _encode_responses(self, tokens: TokenBatch) -> Tensor:
        """h_y of responses, in the run's precision."""
        with self.fabric.autocast():
            return self.module.encode(tokens.to(self.fabric.device), "response")

    def _clip(self, stage: Stage) -> None:
        if stage.clip_norm or stage.clip_embedding_norm:
            self.fabric.strategy.precision.unscale_gradients(self.optimizer.optimizer)
        if stage.clip_embedding_norm:
            clip_gradients(self.module.embedding.parameters(), stage.clip_embedding_norm)
        if stage.clip_norm:
            clip_gradients(self.module.parameters(), stage.clip_norm)

    def _after_step(self, stage: Stage) -> None:
        """Whatever is due: a line of metrics, validation, a checkpoint, the end."""
        if self.fabric.device.type == "cpu" and not self.meter.is_finite():  # a GPU would have to be waited for
            self._diverged(stage)
        if self.state.step % self.recipe.log.every_steps == 0:
            self._log(stage)
        gained = self.keeper.validation_due() and self._validate(stage)
        if gained or self.keeper.checkpoint_due():
            self._checkpoint(stage)
        self._count_time()
        self._show(stage)
        self._stop_if_asked(stage)

    def _stop_if_asked(self, stage: Stage) -> None:
        if self.stop.is_set():
            if self.keeper.saved_step != self.state.step:
                self._checkpoint(stage)
            raise TrainingInterrupted(
                f"stopped at step {self.state.step:,}, checkpoint written; the same command continues from there"
            )

    def _finish_stage(self, stage: Stage) -> None:
        """What is left over for metrics, a last validation, a checkpoint at the door of the next stage."""
        if self.state.summed:
            self._log(stage)
        if self.keeper.validator is None:
            self.keeper.save_model()
        elif self.state.validated_step != self.state.step:
            self._validate(stage)
        self.state.enter_next_stage()
        self.optimizer = None
        self._checkpoint(stage)

    def _log(self, stage: Stage) -> None:
        if not self.meter.is_finite():
            self._diverged(stage)
        values = self.meter.take() | {"learning_rate": self.rate, "scale": self.scale}
        values |= {"examples": self.state.examples, "seconds": self.state.seconds}
        self.metrics.write(self.state.step, stage.name, values)

    def _validate(self, stage: Stage) -> bool:
        """Validate; returns whether the model is the best so far."""
        if not self.keeper.is_finite():
            self._diverged(stage)
        figures, best = self.keeper.validate(self._encode)
        self.metrics.write(self.state.step, stage.name, {f"valid_{name}": value for name, value in figures.items()})
        shown = ", ".join(f"{name} {value:.1%}" for name, value in figures.items())
        self.display.note(f"step {self.state.step:,}: validation {shown}{', the best so far' if best else ''}")
        return best

    def _checkpoint(self, stage: Stage) -> None:
        if not (self.meter.is_finite() and self.keeper.is_finite()):
            self._diverged(stage)
        self.meter.store()
        optimizer = None if self.optimizer is None else self.optimizer.optimizer
        self.keeper.checkpoint(optimizer, self.fabric.strategy.precision.state_dict())

    def _diverged(self, stage: Stage) -> NoReturn:
        saved = self.keeper.saved_step
        kept = "no checkpoint had been written yet" if saved is None else f"the checkpoint of step {saved:,} is kept"
        raise RejoinderError(
            f"stage '{stage.name}': loss or weights are no longer finite numbers at step {self.state.step:,} (learning "
            f"rate {self.rate:.3g}); lower its learning_rate or set clip_norm, in a new folder; {kept}"
        )

    def _share(self) -> float:
        """Share of the stage's budget that is used."""
        return self.budgets[self.state.stage].share(self.state.stage_step, self.state.stage_seconds)

    def _count_time(self) -> float:
        """Count the time since the last call as the stage's; returns it."""
        now = self.clock()
        passed, self.counted_to = now - self.counted_to, now
        self.state.spend(passed)
        return passed

    def _show(self, stage: Stage) -> None:
        share, used = self._share(), self.state.stage_seconds
        speed, _ = self.meter.rates()
        left = used * (1 - share) / share if share else None
        step, loss, accuracy = self.state.step, self.meter.loss, self.meter.accuracy
        self.display.show(Standing(stage.name, share, step, loss, accuracy, speed, left))


def _check_stages(recipe: Recipe) -> None:
    """Refuse stages that do not fit the model before anything long is begun."""
    with torch.device("meta"):  # no memory, no numbers
        probe = persistence.build_module(recipe.model, rows=2)
    for stage in recipe.stage:
        prepare_stage(probe, stage)
        build_optimizer(probe, stage)


def _summary(recipe: Recipe, folder: RunFolder, state: RunState, precision: str) -> RunSummary:
    return RunSummary(
        name=recipe.name,
        run=str(folder.path),
        model=str(folder.model),
        steps=state.step,
        examples=state.examples,
        tokens=state.tokens,
        seconds=state.seconds,
        best_step=state.best_step,
        validation=state.validation,
        precision=precision,
    )


@contextmanager
def _interrupts(display: Display) -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into an event that is looked at after each step; the second one stops at once."""
    stop = threading.Event()

    def listen(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        display.note("Stopping after this step; once more to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals go to the main thread
        return
    before = {number: signal.signal(number, listen) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
