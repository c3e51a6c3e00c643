"""The training loop: stages, steps, validation, checkpoints, written out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from rejoinder.errors import InputError, RejoinderError
from rejoinder.memory import keep_memory
from rejoinder.models.families import build_module, family_of
from rejoinder.models.layers import Encodings
from rejoinder.models.packing import TokenBatch
from rejoinder.training.batches import PairBatch, Portion, StepBatch, batches, prefetched
from rejoinder.training.budget import run_share, stage_budget
from rejoinder.training.checkpoint import LoadedCheckpoint, load_checkpoint
from rejoinder.training.compute import Machine, set_up, without_denormals
from rejoinder.training.display import Display, Silent, Standing
from rejoinder.training.distillation import Distiller
from rejoinder.training.distributed import Processes, joined
from rejoinder.training.given_negatives import with_negatives
from rejoinder.training.gradient_cache import forward_backward
from rejoinder.training.hard_negatives import Table, Tables
from rejoinder.training.init import copy_initial_weights
from rejoinder.training.interrupts import interrupts
from rejoinder.training.keeper import Keeper
from rejoinder.training.learned_scale import attach_scale
from rejoinder.training.losses import InBatchLoss, Loss, SummedLoss
from rejoinder.training.masked_lm import LikeLengths, Masking, pair_lengths, pretraining_step
from rejoinder.training.meter import Meter
from rejoinder.training.metrics import MetricsLog
from rejoinder.training.mining import Miner
from rejoinder.training.mixing import MixedOrder
from rejoinder.training.optimization import build_optimizer, clip_gradients, prepare_stage, set_learning_rate
from rejoinder.training.prepare import Prepared, prepare
from rejoinder.training.quantized import quantized_training
from rejoinder.training.recipe import Recipe, Stage
from rejoinder.training.recipe_schedules import Plateau
from rejoinder.training.run_folder import RunFolder, check_model, open_run
from rejoinder.training.schedules import Progress, learning_rate, score_scale
from rejoinder.training.similarity import SimilarityDistiller
from rejoinder.training.stage_checks import check_stages
from rejoinder.training.state import RunState
from rejoinder.training.summary import RunSummary, figure_text, load_summary, save_summary
from rejoinder.training.validation import Validator
from rejoinder.training.words import set_embedding

Clock = Callable[[], float]


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C, or a request to terminate; a checkpoint has been written. The message says how to go on."""


def train(
    recipe: Recipe, run: str | Path, *, display: Display | None = None, clock: Clock = time.monotonic
) -> RunSummary:
    """Train as the recipe says, or continue where an earlier process stopped.

    On a CPU, a run whose budgets are in steps or epochs gives the same weights bit for bit, whether it was
    interrupted or not, given the same number of threads and processes.

    Where torchrun or Ray started several processes that all call this, they train together (see `distributed`).

    Args:
        recipe: what to do (see `recipe_files.load_recipe`).
        run: folder for everything that comes out; of several processes the first one writes it.
        display: shows progress; None shows nothing.
        clock: seconds from any fixed moment.

    Returns:
        What came out. A finished run is left as it is.

    Raises:
        InputError: recipe, data and folder do not fit each other.
        RejoinderError: the loss is no longer a finite number, or another process is gone; the last checkpoint stays.
        TrainingInterrupted: Ctrl-C; a checkpoint has been written.
    """
    display = display or Silent()
    with joined() as processes, ExitStack() as open_folders:
        folder = processes.first_before_others(
            lambda: open_folders.enter_context(open_run(Path(run), recipe)) if processes.first else RunFolder(Path(run))
        )
        finished, _ = processes.agree(folder.summary.exists())
        if finished:
            check_model(folder)
            return load_summary(folder.summary, folder.path, folder.model)
        keep_memory()
        machine = set_up(recipe.compute, recipe.quantization)
        check_stages(recipe, processes)
        prepared = processes.first_before_others(lambda: prepare(recipe, folder.tokens, display))
        with closing(display):
            trainer = _Trainer(recipe, folder, prepared, machine, processes, display, clock)
            log = MetricsLog(folder, trainer.state.step) if processes.first else nullcontext()
            with log as metrics, interrupts(display) as stop, without_denormals():
                trainer.run(metrics, stop)
            summary = _summary(recipe, folder, trainer.state, machine.precision)
        if processes.first:
            save_summary(summary, folder.summary)
        return summary


class _Trainer:
    """One run, as one process sees it."""

    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        prepared: Prepared,
        machine: Machine,
        processes: Processes,
        display: Display,
        clock: Clock,
    ) -> None:
        self.recipe, self.folder, self.prepared = recipe, folder, prepared
        self.machine, self.processes, self.display, self.clock = machine, processes, display, clock
        torch.manual_seed(recipe.seed)
        self.module = build_module(recipe.model, prepared.tokenizer.rows)
        scale = None
        if recipe.init.given and not folder.checkpoint.exists():
            scale = copy_initial_weights(self.module, recipe.init)
        if prepared.words is not None:
            set_embedding(self.module.embedding, prepared.words)
        self.learned_scale = attach_scale(self.module, recipe.scale, scale)
        self.module.to(machine.device)
        self.packing = family_of(self.module.config).packing
        self.quantized = quantized_training(recipe.quantization, self.module, machine.precision)
        self.distiller = _distiller(recipe, prepared)
        self.loss = SummedLoss(InBatchLoss(recipe.loss.smoothing))
        self.masking = Masking.of(prepared.tokenizer) if self.packing == "masked" else None
        self.orders: list[Any] = [
            LikeLengths(pair_lengths(prepared.train), stage.batch_tokens, stage.batch_size, (recipe.seed, number))
            if self.packing == "masked"
            else MixedOrder(prepared.sizes, recipe.data.shares, stage.batch_size, (recipe.seed, number))
            for number, stage in enumerate(recipe.stage)
        ]
        pairs = zip(recipe.stage, self.orders, strict=True)
        self.budgets = [stage_budget(stage, order.batches_per_epoch) for stage, order in pairs]
        self.loaded = load_checkpoint(folder.checkpoint)
        self.state = self._resume(self.loaded) if self.loaded else RunState(data=prepared.digest)
        self.meter = Meter(self.state, machine.device)
        validator = self._validator(prepared)
        self.keeper = Keeper(
            recipe, folder, self.state, self.module, prepared.tokenizer, validator, machine.precision, processes.first
        )
        self.optimizer: Any = None
        self.metrics: MetricsLog | None = None
        self.rate, self.counted_to = 0.0, 0.0
        self.scale: float | Tensor = 0.0
        processes.equalise(self.module)

    def _validator(self, prepared: Prepared) -> Validator | None:
        if prepared.valid is None:
            return None
        place = self.module.padding_id, self.processes, self.packing
        return Validator(prepared.valid, self.recipe.validation, *place)

    def _resume(self, loaded: LoadedCheckpoint) -> RunState:
        if loaded.state.data != self.prepared.digest:
            raise InputError(
                f"{self.folder.path}: the examples in {self._places()} are not those that the run was started "
                "with; give those, or name another folder"
            )
        if loaded.state.best is not None or self.folder.model.exists():
            check_model(self.folder)
        loaded.restore_module(self.module)
        self.machine.scaler.load_state_dict(loaded.scaler)
        self.display.note(f"Continuing {self.folder.path} at step {loaded.state.step:,}")
        return loaded.state

    def _places(self) -> str:
        return " and ".join([self.recipe.data.train, *(mixed.train for mixed in self.recipe.data.mix)])

    def run(self, metrics: MetricsLog | None, stop: threading.Event) -> None:
        """Train to the end.

        Args:
            metrics: where lines go; None in a process that does not write.
            stop: once it is set, a checkpoint is written and TrainingInterrupted raised.
        """
        self.metrics, self.stop = metrics, stop
        while self.state.stage < len(self.recipe.stage):
            self._stage(self.recipe.stage[self.state.stage])

    def _stage(self, stage: Stage) -> None:
        """One stage, from wherever the state stands in it."""
        state = self.state
        prepare_stage(self.module, stage)
        self.optimizer = build_optimizer(self.module, stage)
        if self.loaded and state.stage_step:
            self.loaded.restore_optimizer(self.module, self.optimizer)
        self.loaded = None  # its tensors are not needed any more
        self.counted_to = self.clock()
        if self.recipe.init.given and self.keeper.validator is not None and state.best is None:
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

    def _batches(self, stage: Stage, tables: Tables | None, stop: int | None) -> Generator[StepBatch, None, None]:
        """The stage's batches from where it stands to `stop`, with hard negatives if there are `tables`."""
        mined = None if tables is None else self._table(stage, tables).of
        examples, further = with_negatives(self.prepared.train, stage, (self.recipe.seed, self.state.stage), mined)
        order, padding_id = self.orders[self.state.stage], self.module.padding_id
        portion = Portion(self.processes.rank, self.processes.count, stage.micro_batch)
        begin = self.state.stage_step
        if self.masking is not None:
            store, masking, seed = self.prepared.train, self.masking, (self.recipe.seed, self.state.stage)
            return prefetched(
                lambda step: pretraining_step(store, order.rows(step), step, masking, seed, portion), begin, stop
            )
        options: Any = {"stop": stop, "further": further, "packing": self.packing}
        return batches(examples, order, padding_id, begin, portion, **options)

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
        table = self.processes.first_before_others(lambda: tables.load(state.step, state.stage_step))
        if table is None:
            table = self.processes.first_before_others(lambda: self._mine(stage, tables))
            self._count_time(0)
            self._checkpoint(stage)  # from here on no earlier table is needed
            if self.processes.first:
                tables.forget_others(state.step, state.stage_step)
        return table

    def _mine(self, stage: Stage, tables: Tables) -> Table:
        """Mine a table, in the first process; the others find what it wrote."""
        state = self.state
        if not self.processes.first and (table := tables.load(state.step, state.stage_step)) is not None:
            return table
        assert stage.hard_negatives is not None  # there are tables
        self.module.eval()
        store, padding_id = self.prepared.train, self.module.padding_id
        miner = Miner(store, stage.hard_negatives, self._sides, self._encode_responses, padding_id)
        # Others that wait cannot be told to stop; with them, Ctrl-C is looked at after the next step.
        pause = partial(self._pause, stage) if self.processes.count == 1 else lambda: None
        return tables.mine(state.step, state.stage_step, miner, self.display, pause)

    def _pause(self, stage: Stage) -> None:
        if self.stop.is_set():
            self._interrupt(stage)

    def _step(self, stage: Stage, batch: StepBatch) -> None:
        """Forward, loss, backward, update."""
        state, share = self.state, self._share()
        self.rate = learning_rate(stage.schedule, stage.learning_rate, Progress(state.stage_step, share, state.drops))
        self.scale = self._scale()
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        taught = None if self.distiller is None else self.distiller(batch)
        encode, loss_of = partial(self._encode_part, batch), partial(self._loss, batch, taught)
        loss = forward_backward(len(batch.parts), encode, loss_of, self.machine.backward)
        loss = self.processes.sum_gradients(self.module.parameters(), loss)
        self._clip(stage)
        set_learning_rate(self.optimizer, self.rate)
        self.machine.scaler.step(self.optimizer)
        self.machine.scaler.update()
        if self.learned_scale is not None:
            self.learned_scale.keep_within()
        state.step += 1
        if self.quantized:
            self.quantized.cover(state.step)
        state.stage_step += 1
        seconds, tokens = self._count_time(batch.tokens)
        state.examples += batch.pairs
        state.tokens += int(tokens)
        self.meter.add(batch.pairs, int(tokens), loss, seconds)

    def _scale(self) -> float | Tensor:
        """The factor of the scores at the next step."""
        if self.learned_scale is not None:
            return self.learned_scale.value
        whole = Progress(self.state.step, run_share(self.budgets, self.state.stage, self._share()))
        return score_scale(self.recipe.scale, self.module.output_size, whole)

    def _encode_part(self, batch: StepBatch, part: int) -> Encodings:
        """Encode one part of a step's batch; dropout is a function of seed, step, process and part."""
        set_randomness(self.recipe.seed, self.state.step, self.processes.rank, part)
        return self._encode(batch.parts[part])

    def _encode(self, batch: PairBatch) -> Encodings:
        """The matrices that the loss is a function of, in the run's precision."""
        device, n = self.machine.device, batch.pairs
        with self.machine.autocast(), self.quantized.rounded() if self.quantized else nullcontext():
            encodings: Encodings = self.module.encode_pairs(batch.tokens.to(device), n, batch.histories.to(device))
        responses = encodings.get("response")
        if responses is None or len(responses) == n:
            return encodings
        return {**encodings, "response": responses[:n], "further": responses[n:]}

    def _loss(self, batch: StepBatch, taught: Tensor | None, encodings: Encodings) -> Loss:
        """The loss of this process's contexts among all responses, as a function of the encodings of all parts.

        `taught` is what the teacher gives, where there is one.
        """
        equal = batch.equal.to(self.machine.device) if self.recipe.loss.mask_equal_responses else None
        if "losses" in encodings:
            return Loss(encodings["losses"].sum() * batch.weight, encodings["hits"].sum() * batch.weight)
        if "scores" in encodings:
            return self.loss(encodings, self.scale, equal, batch.first, batch.pairs)
        sides = [self.processes.gather(encodings[side]) for side in ("response", "further") if side in encodings]
        contexts = {name: rows for name, rows in encodings.items() if name not in ("response", "further")}
        every = {**contexts, "response": sides[0] if len(sides) == 1 else torch.cat(sides)}
        loss: Loss = self.loss(every, self.scale, equal, batch.first, batch.pairs, batch.present)
        if self.distiller is None or taught is None:
            return loss
        return self.distiller.add(loss, batch, every, self.scale, taught)

    def _sides(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """What validation ranks, see `validation.Encode`."""
        encodings = self._encode(batch)
        if "scores" in encodings:
            return encodings["scores"], encodings["scores"]
        return encodings["context"], encodings["response"]

    def _encode_responses(self, tokens: TokenBatch) -> Tensor:
        """h_y of responses, in the run's precision."""
        with self.machine.autocast(), self.quantized.rounded() if self.quantized else nullcontext():
            return self.module.encode(tokens.to(self.machine.device), "response")

    def _clip(self, stage: Stage) -> None:
        if stage.clip_norm or stage.clip_embedding_norm:
            self.machine.scaler.unscale_(self.optimizer)
        if stage.clip_embedding_norm:
            clip_gradients(self.module.embedding.parameters(), stage.clip_embedding_norm)
        if stage.clip_norm:
            clip_gradients(self.module.parameters(), stage.clip_norm)

    def _after_step(self, stage: Stage) -> None:
        """Whatever is due: a line of metrics, validation, a checkpoint, the end."""
        if self.machine.device.type == "cpu" and not self.meter.is_finite():  # a GPU would have to be waited for
            self._diverged(stage)
        if self.state.step % self.recipe.log.every_steps == 0:
            self._log(stage)
        epoch = self.orders[self.state.stage].batches_per_epoch
        gained = self.keeper.validation_due(epoch) and self._validate(stage)
        if gained or self.keeper.checkpoint_due():
            self._checkpoint(stage)
        self._show(stage)
        _, stopped = self._count_time(self.stop.is_set())
        if stopped:
            self._interrupt(stage)

    def _interrupt(self, stage: Stage) -> NoReturn:
        """Write a checkpoint and end."""
        if self.keeper.saved_step != self.state.step:
            self._checkpoint(stage)
        self.processes.meet()  # before one that ends makes the launcher end the others
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
        values = self.meter.take() | {"learning_rate": self.rate, "scale": _number(self.scale)}
        values |= {"examples": self.state.examples, "seconds": self.state.seconds}
        self._write(stage, values)

    def _write(self, stage: Stage, values: dict[str, float]) -> None:
        if self.metrics is not None:
            self.metrics.write(self.state.step, stage.name, values)

    def _validate(self, stage: Stage) -> bool:
        """Validate; returns whether the model is the best so far."""
        if not self.keeper.is_finite():
            self._diverged(stage)
        patience = stage.schedule.patience if isinstance(stage.schedule, Plateau) else None
        scale = _number(self.scale or self._scale())
        figures, best = self.keeper.validate(self._sides, scale, patience)
        self._write(stage, {f"valid_{name}": value for name, value in figures.items()})
        shown = ", ".join(f"{name} {figure_text(name, value)}" for name, value in figures.items())
        self.display.note(f"step {self.state.step:,}: validation {shown}{', the best so far' if best else ''}")
        return best

    def _checkpoint(self, stage: Stage) -> None:
        if not (self.meter.is_finite() and self.keeper.is_finite()):
            self._diverged(stage)
        self.meter.store()
        self.keeper.checkpoint(self.optimizer, self.machine.scaler.state_dict())

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

    def _count_time(self, figure: float) -> tuple[float, float]:
        """Count the time since the last call as the stage's, by the clock of the first process.

        Returns:
            That time, and the sum of a figure over all processes.
        """
        now = self.clock()
        passed, self.counted_to = now - self.counted_to, now
        passed, total = self.processes.agree(passed, figure)
        self.state.spend(passed)
        return passed, total

    def _show(self, stage: Stage) -> None:
        share, used = self._share(), self.state.stage_seconds
        speed, _ = self.meter.rates()
        left = used * (1 - share) / share if share else None
        step, loss, accuracy = self.state.step, self.meter.loss, self.meter.accuracy
        self.display.show(Standing(stage.name, share, step, loss, accuracy, speed, left))


def _distiller(recipe: Recipe, prepared: Prepared) -> Distiller | SimilarityDistiller | None:
    if recipe.distillation is None:
        return None
    if prepared.taught is not None:
        return SimilarityDistiller(recipe.distillation, prepared.taught)
    return Distiller(recipe.distillation, prepared.train)


def _number(value: float | Tensor) -> float:
    return float(value.detach() if isinstance(value, Tensor) else value)


def set_randomness(*numbers: int) -> None:
    """Make what follows (dropout) a function of these numbers alone, so that it can be computed again."""
    torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))


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
