"""The training loop: stages, steps, validation, checkpoints, written out.

One optimisation step is `Trainer._step`: `batches` packs its pairs, the model encodes them, `compute` runs both passes,
`losses` ranks each response among all of them, and `optimization` has the rates and the update.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from rejoinder.encoders import persistence
from rejoinder.encoders.families import build_module, family_of
from rejoinder.errors import InputError, RejoinderError
from rejoinder.networks.layers import Encodings
from rejoinder.networks.packing import TokenBatch
from rejoinder.networks.quantization import QuantizedTraining
from rejoinder.settings import given
from rejoinder.training import optimization
from rejoinder.training import run as runs
from rejoinder.training.batches import (
    ChangedHistories,
    MixedOrder,
    PairBatch,
    Portion,
    StepBatch,
    make_step,
    prefetched,
)
from rejoinder.training.compute import choose_half, forward_backward, set_up, without_denormals
from rejoinder.training.display import Display, Standing, interrupts
from rejoinder.training.distillation import open_distiller
from rejoinder.training.distributed import ElsewhereError, Processes, joined
from rejoinder.training.frozen import is_anchored, is_frozen
from rejoinder.training.initialisation import copy_initial_weights
from rejoinder.training.losses import InBatchLoss, Loss, SummedLoss, annealed_scale, attach_scale
from rejoinder.training.masked_lm import LikeLengths, Masking, pair_lengths, pretraining_step
from rejoinder.training.metrics import Meter, MetricsLog
from rejoinder.training.negatives import Miner, Table, Tables, with_negatives
from rejoinder.training.prepare import prepare, with_vectors
from rejoinder.training.recipe import HardNegatives, Plateau, Recipe, Stage
from rejoinder.training.recipe_files import check_stages
from rejoinder.training.validation import Validator

Clock = Callable[[], float]


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C, or a request to terminate; a checkpoint has been written. The message says how to go on."""


def train(
    recipe: Recipe | str | Path,
    run: str | Path,
    *,
    data: str | Path | Sequence[str | Path] | None = None,
    settings: Mapping[str, Any] | None = None,
    display: Display | None = None,
    clock: Clock = time.monotonic,
) -> runs.RunSummary:
    """Train as a recipe says, or continue where an earlier process stopped.

    On a CPU, with budgets in steps or epochs and the same number of threads and processes, the weights are the same bit
    for bit, interrupted or not. Processes that torchrun or Ray started train together (see `distributed`).

    Args:
        recipe: a TOML file, the name of a recipe that comes with Rejoinder ("convert-quick", "poly/bi-small"), or one
            that has been read (see `recipe_files.load_recipe`).
        run: folder for everything that comes out; a finished run is left as it is.
        data: folder of examples, instead of the recipe's `data.train`; the others of several, of its `data.mix`.
        settings: values that override the recipe's, by dotted key, such as {"stage.0.minutes": 2}.
        display: shows progress (`display.TerminalDisplay`).
        clock: seconds from any fixed moment.

    Raises:
        InputError: recipe, data and folder do not fit each other.
        RejoinderError: the loss is no longer a finite number, or another process is gone; the last checkpoint stays.
        TrainingInterrupted: Ctrl-C; a checkpoint has been written.

    >>> summary = train("convert-quick", data="data/chats", run="runs/small")  # doctest: +SKIP
    """
    if not isinstance(settings, Mapping | None):
        raise InputError(f'give settings by dotted key, such as {{"stage.0.minutes": 2}}; given: {settings!r}')
    wanted, shown, place = runs.resolve_recipe(recipe, data or (), settings or {}), display or Display(), Path(run)
    with joined() as processes, ExitStack() as held, closing(shown):

        def begin() -> Trainer | runs.RunSummary:
            folder = held.enter_context(runs.open_run(place, wanted)) if processes.first else runs.RunFolder(place)
            if folder.summary.exists():
                runs.check_model(folder)
                return runs.load_summary(folder)
            check_stages(wanted, processes)
            return Trainer(wanted, folder, processes, shown, clock)

        trainer = processes.rank_zero_first(begin)
        return trainer if isinstance(trainer, runs.RunSummary) else trainer.run()


class Trainer:
    """One run, as one process sees it."""

    def __init__(
        self, recipe: Recipe, folder: runs.RunFolder, processes: Processes, display: Display, clock: Clock
    ) -> None:
        self.recipe, self.folder, self.processes, self.display, self.clock = recipe, folder, processes, display, clock
        self.machine = set_up(recipe.compute, recipe.quantization)
        prepared = self.prepared = prepare(recipe, folder.tokens, display)
        torch.manual_seed(recipe.seed)
        self.module = build_module(recipe.model, prepared.tokenizer.rows)
        scale = None
        anchored = is_anchored(recipe, self.module)
        if recipe.init.given and (anchored or not folder.checkpoint.exists()):
            scale = copy_initial_weights(self.module, recipe.init)
        if prepared.words is not None:
            self.module.embedding.weight.data.copy_(torch.from_numpy(prepared.words))
        self.learned_scale = attach_scale(self.module, recipe.scale, scale)
        self.distiller = open_distiller(recipe.distillation, prepared.train, prepared.taught, self.module)
        self.module.to(self.machine.device)
        self.packing = family_of(self.module.config).packing
        self.quantized: QuantizedTraining | None = None
        if recipe.quantization.enabled:
            half = choose_half(recipe.quantization, self.machine.precision)
            self.quantized = QuantizedTraining(self.module, half, range_every=recipe.quantization.range_every)
        self.loss = SummedLoss(InBatchLoss(recipe.loss.smoothing))
        self.masking = Masking.from_tokenizer(prepared.tokenizer) if self.packing == "masked" else None
        self.orders: list[Any] = [
            LikeLengths(pair_lengths(prepared.train), stage.batch_tokens, stage.batch_size, (recipe.seed, number))
            if self.packing == "masked"
            else MixedOrder(prepared.sizes, recipe.data.shares, stage.batch_size, (recipe.seed, number))
            for number, stage in enumerate(recipe.stage)
        ]
        pairs = zip(recipe.stage, self.orders, strict=True)
        self.budgets = [optimization.stage_budget(stage, order.batches_per_epoch) for stage, order in pairs]
        place = folder.tokens, self.module, self.machine, display
        if anchored:  # before what it has learned is loaded
            prepared = self.prepared = with_vectors(prepared, recipe, *place)
        self.loaded = runs.load_checkpoint(folder.checkpoint)
        self.state = self._resume(self.loaded) if self.loaded else runs.RunState(data=prepared.digest)
        if is_frozen(recipe, self.module):
            prepared = self.prepared = with_vectors(prepared, recipe, *place)
        ranked = recipe.validation, self.module.padding_id, processes, self.packing
        self.validators = {name: Validator(store, *ranked) for name, store in prepared.valid.items()}
        self.meter = Meter(self.state, self.machine.device)
        self.optimizer: Any = None
        self.metrics: MetricsLog | None = None
        self.stop = threading.Event()
        self.rate, self.counted_to = 0.0, 0.0
        self.scale: float | Tensor = 0.0

    def _resume(self, loaded: runs.LoadedCheckpoint) -> runs.RunState:
        state, data = loaded.state, self.recipe.data
        if state.data != self.prepared.digest:
            places = " and ".join([data.train, *(mixed.train for mixed in data.mix)])
            fault = f"the examples in {places} are not those that the run was started with"
            raise InputError(f"{self.folder.path}: {fault}; give those, or name another folder")
        if state.best is not None or self.folder.model.exists():
            runs.check_model(self.folder)
        loaded.restore_module(self.module)
        self.machine.scaler.load_state_dict(loaded.scaler)
        state.saved_at, state.saved_step = state.seconds, state.step
        self.display.note(f"Continuing {self.folder.path} at step {state.step:,}")
        return state

    def run(self) -> runs.RunSummary:
        """Train to the end, and write the summary."""
        self.processes.broadcast_parameters(self.module)
        log = closing(MetricsLog(self.folder, self.state.step)) if self.processes.first else nullcontext()
        with log as self.metrics, interrupts(self.display) as self.stop, without_denormals():
            while self.state.stage < len(self.recipe.stage):
                self._stage(self.recipe.stage[self.state.stage])
        summary = runs.summarise(self.recipe, self.folder, self.state, self.machine.precision)
        if self.processes.first:
            runs.save_summary(summary, self.folder.summary)
        return summary

    def _stage(self, stage: Stage) -> None:
        state = self.state
        optimization.prepare_stage(self.module, stage)
        self.optimizer = optimization.build_optimizer(self.module, stage)
        if self.loaded and state.stage_step:
            self.loaded.restore_optimizer(self.module, self.optimizer)
        self.loaded = None  # its tensors are not needed any more
        self.counted_to = self.clock()
        if self.recipe.init.given and self.validators and state.best is None:
            self._validate(stage)  # the model to start from, so that training never makes it worse
            self._checkpoint(stage)
        tables = None if stage.hard_negatives is None else self._tables(stage.hard_negatives)
        while self._has_budget():
            stop = None if tables is None else tables.window(state.stage_step)[1]
            with closing(self._batches(stage, tables, stop)) as stream:
                while self._has_budget() and (stop is None or state.stage_step < stop):
                    self._step(stage, next(stream))
                    self._after_step(stage)
        self._finish_stage(stage)

    def _has_budget(self) -> bool:
        patience = self.recipe.validation.patience
        return self._share() < 1 and not (patience > 0 and self.state.without_gain >= patience)

    def _batches(self, stage: Stage, tables: Tables | None, stop: int | None) -> Generator[StepBatch, None, None]:
        """Prepare the stage's batches from where it stands to `stop`."""
        mined = None if tables is None else self._table(stage, tables)
        seed, order = (self.recipe.seed, self.state.stage), self.orders[self.state.stage]
        portion = Portion(self.processes.rank, self.processes.count, stage.micro_batch)
        store, further = with_negatives(self.prepared.train, stage, seed, mined)
        histories, changes = None, self.recipe.history
        if given(changes) and store.history is not None:
            histories = ChangedHistories(changes, store.history.counts, seed)

        def make(step: int) -> StepBatch:
            rows = order.rows(step)
            if self.masking is not None:
                return pretraining_step(store, rows, step, self.masking, seed, portion)
            return make_step(store, rows, self.module.padding_id, portion, further, self.packing, histories)

        return prefetched(make, self.state.stage_step, stop)

    def _tables(self, config: HardNegatives) -> Tables:
        number, budget = self.state.stage, self.budgets[self.state.stage]
        steps = None if budget.in_seconds else int(budget.amount)
        return Tables(config, self.orders[number], steps, self.folder.hard_negatives, (self.recipe.seed, number))

    def _table(self, stage: Stage, tables: Tables) -> Table:
        """Return the hard negatives of the next batches, mined now if they begin a window."""
        step, stage_step, mined = self.state.step, self.state.stage_step, False

        def load_or_mine() -> Table:
            nonlocal mined
            table = tables.load(step, stage_step)
            if table is None:
                table, mined = self._mine(stage, tables), True
            return table

        table = self.processes.rank_zero_first(load_or_mine)
        if self.processes.all_reduce(mined)[0]:
            self._count_time(0)
            self._checkpoint(stage)  # from here on no earlier table is needed
            if self.processes.first:
                tables.forget_others(step, stage_step)
        return table

    def _mine(self, stage: Stage, tables: Tables) -> Table:
        def pause() -> None:
            # Others that wait cannot be told to stop; with them, Ctrl-C is looked at after the next step.
            if self.stop.is_set() and self.processes.count == 1:
                self._interrupt(stage)

        self.module.eval()
        store, padding_id = self.prepared.train, self.module.padding_id
        miner = Miner(store, tables.config, self._sides, self._encode_responses, padding_id)
        return tables.mine(self.state.step, self.state.stage_step, miner, self.display, pause)

    def _step(self, stage: Stage, batch: StepBatch) -> None:
        state, scaler = self.state, self.machine.scaler
        position, in_seconds = (state.stage_step, self._share(), state.drops), self.budgets[state.stage].in_seconds
        self.rate = optimization.learning_rate(stage.schedule, stage.learning_rate, *position, in_seconds=in_seconds)
        self.scale = self._scale()
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        taught = None if self.distiller is None else self.distiller(batch)
        encode, loss_of = partial(self._encode_part, batch), partial(self._loss, batch, taught)
        loss = forward_backward(len(batch.parts), encode, loss_of, self.machine.backward)
        loss = self.processes.sum_gradients(self.module.parameters(), loss)
        if stage.clip_norm or stage.clip_embedding_norm:
            scaler.unscale_(self.optimizer)
        if stage.clip_embedding_norm:
            optimization.clip_gradients(self.module.embedding.parameters(), stage.clip_embedding_norm)
        if stage.clip_norm:
            optimization.clip_gradients(self.module.parameters(), stage.clip_norm)
        optimization.set_learning_rate(self.optimizer, self.rate)
        scaler.step(self.optimizer)
        scaler.update()
        if self.learned_scale is not None:
            self.learned_scale.clamp()
        state.step += 1
        state.stage_step += 1
        if self.quantized:
            self.quantized.cover(state.step)
        seconds, tokens = self._count_time(batch.tokens)
        state.examples += batch.pairs
        state.tokens += int(tokens)
        self.meter.add(batch.pairs, int(tokens), loss, seconds)

    def _scale(self) -> float | Tensor:
        if self.learned_scale is not None:
            return self.learned_scale.value
        share = optimization.run_share(self.budgets, self.state.stage, self._share())
        return annealed_scale(self.recipe.scale, self.module.output_size, self.state.step, share)

    def _encode_part(self, batch: StepBatch, part: int) -> Encodings:
        """Encode one part of a step's batch; dropout is a function of seed, step, process and part."""
        numbers = (self.recipe.seed, self.state.step, self.processes.rank, part)
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
        return self._encode(batch.parts[part])

    @contextmanager
    def _precision(self) -> Iterator[None]:
        with self.machine.autocast(), self.quantized.rounded() if self.quantized else nullcontext():
            yield

    def _encode(self, batch: PairBatch) -> Encodings:
        """Return the matrices that the loss is a function of."""
        device, n = self.machine.device, batch.pairs
        with self._precision():
            encodings: Encodings = self.module.encode_pairs(batch.tokens.to(device), n, batch.histories.to(device))
        responses = encodings.get("response")
        if responses is None or len(responses) == n:
            return encodings
        return {**encodings, "response": responses[:n], "further": responses[n:]}

    def _loss(self, batch: StepBatch, taught: Tensor | None, encodings: Encodings) -> Loss:
        """Return the loss of this process's contexts among all responses; `taught` is what the teacher gave."""
        equal = batch.equal.to(self.machine.device) if self.recipe.loss.mask_equal_responses else None
        if "losses" in encodings:
            return Loss(encodings["losses"].sum() * batch.weight, encodings["hits"].sum() * batch.weight)
        if "scores" in encodings:
            return self.loss(encodings, self.scale, equal, batch.first, batch.pairs)
        sides = [self.processes.gather(encodings[side]) for side in ("response", "further") if side in encodings]
        contexts = {name: rows for name, rows in encodings.items() if name not in ("response", "further", "drift")}
        every = {**contexts, "response": sides[0] if len(sides) == 1 else torch.cat(sides)}
        loss: Loss = self.loss(every, self.scale, equal, batch.first, batch.pairs, batch.present)
        if self.distiller is not None and taught is not None:
            loss = self.distiller.add(loss, batch, every, self.scale, taught)
        return loss if "drift" not in encodings else self._anchored(loss, encodings["drift"].sum() / batch.pairs)

    def _anchored(self, loss: Loss, drift: Tensor) -> Loss:
        figures = {**loss.figures, "loss_anchor": drift.detach()}
        return Loss(loss.value + self.recipe.init.anchor * drift, loss.accuracy, figures)

    def _sides(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        encodings = self._encode(batch)
        if "scores" in encodings:
            return encodings["scores"], encodings["scores"]
        return encodings["context"], encodings["response"]

    def _encode_responses(self, tokens: TokenBatch) -> Tensor:
        with self._precision():
            return self.module.encode(tokens.to(self.machine.device), "response")

    def _after_step(self, stage: Stage) -> None:
        """Do what is due: write metrics, validate, write a checkpoint, stop."""
        state, recipe = self.state, self.recipe
        if self.machine.device.type == "cpu":  # a GPU would have to be waited for
            self._check_finite(stage, weights=False)
        if state.step % recipe.log.every_steps == 0:
            self._log(stage)
        epoch = self.orders[state.stage].batches_per_epoch
        due = self.validators and state.validation_due(recipe.validation, epoch)
        gained = due and self._validate(stage)
        if gained or state.checkpoint_due(recipe.checkpoint):
            self._checkpoint(stage)
        self._show(stage)
        if self._count_time(self.stop.is_set())[1]:
            self._interrupt(stage)

    def _interrupt(self, stage: Stage) -> NoReturn:
        if self.state.saved_step != self.state.step:
            self._checkpoint(stage)
        self.processes.barrier()  # before one that ends makes the launcher end the others
        stopped = f"stopped at step {self.state.step:,}"
        raise TrainingInterrupted(f"{stopped}, checkpoint written; the same command continues from there")

    def _finish_stage(self, stage: Stage) -> None:
        """Write what is left of the metrics, validate, and write a checkpoint that begins the next stage."""
        if self.budgets[number := self.state.stage].in_seconds:
            again = f"--set stage.{number}.steps={self.state.stage_step}"
            self.display.note(f"{stage.name}: {self.state.stage_step:,} steps in this time; on any machine: {again}")
        if self.state.summed:
            self._log(stage)
        if not self.validators:
            self.state.best_step = self.state.step
            self._save_model()
        elif self.state.validated_step != self.state.step:
            self._validate(stage)
        self.state.enter_next_stage()
        self.optimizer = None
        self._checkpoint(stage)

    def _log(self, stage: Stage) -> None:
        self._check_finite(stage, weights=False)
        values = self.meter.take() | {"learning_rate": self.rate, "scale": _number(self.scale)}
        self._write(stage, values | {"examples": self.state.examples, "seconds": self.state.seconds})

    def _write(self, stage: Stage, values: dict[str, float]) -> None:
        if self.metrics is not None:
            self.metrics.write(self.state.step, stage.name, values)

    def _validate(self, stage: Stage) -> bool:
        """Validate and save the model if it is the best so far; return whether it is."""
        self._check_finite(stage)
        self.module.eval()
        scale = _number(self.scale or self._scale())
        sets = {name: validator(self._sides, scale) for name, validator in self.validators.items()}
        figures = {name: float(np.mean([found[name] for found in sets.values()])) for name in next(iter(sets.values()))}
        figures["examples"] = sum(validator.examples for validator in self.validators.values())
        patience = stage.schedule.patience if isinstance(stage.schedule, Plateau) else None
        best = self.state.record_validation(figures, patience)
        if best:
            self._save_model()
        every = {"": figures} | ({f"{name}_": found for name, found in sets.items()} if len(sets) > 1 else {})
        self._write(stage, {f"valid_{p}{name}": value for p, found in every.items() for name, value in found.items()})
        shown = ", ".join(f"{name} {value}" for name, value in runs.figure_texts(figures).items())
        among = f"{figures['examples']:,} examples among {self.recipe.validation.candidates}"
        self.display.note(f"step {self.state.step:,}: validation on {among}: {shown}{', the best so far' * best}")
        return best

    def _save_model(self) -> None:
        if self.processes.first:
            card = runs.model_card(self.recipe, self.state, self.machine.precision)
            scale = None if self.learned_scale is None else _number(self.learned_scale.value)
            folder, tokenizer, length = self.folder.model, self.prepared.tokenizer, self.recipe.text.max_length
            persistence.save(folder, self.module, tokenizer, max_length=length, card=card, scale=scale, overwrite=True)

    def _checkpoint(self, stage: Stage) -> None:
        self._check_finite(stage)
        self.meter.store()
        if self.processes.first:
            scaler = self.machine.scaler.state_dict()
            runs.save_checkpoint(self.folder.checkpoint, self.state, self.module, self.optimizer, scaler)
        self.state.saved_at, self.state.saved_step = self.state.seconds, self.state.step

    def _check_finite(self, stage: Stage, *, weights: bool = True) -> None:
        checked = self.module.parameters() if weights else ()
        if self.meter.is_finite() and all(bool(weight.isfinite().all()) for weight in checked):
            return
        step, saved = self.state.step, self.state.saved_step
        kept = "no checkpoint had been written yet" if saved is None else f"the checkpoint of step {saved:,} is kept"
        fault = f"loss or weights are no longer finite numbers at step {step:,} (learning rate {self.rate:.3g})"
        remedy = "lower its learning_rate or set clip_norm, in a new folder"
        error = RejoinderError if self.processes.first else ElsewhereError
        raise error(f"stage '{stage.name}': {fault}; {remedy}; {kept}")

    def _share(self) -> float:
        return self.budgets[self.state.stage].share(self.state.stage_step, self.state.stage_seconds)

    def _count_time(self, figure: float) -> tuple[float, float]:
        """Count the time since the last call, by the first process's clock; return it and a figure summed over all."""
        now = self.clock()
        passed, self.counted_to = now - self.counted_to, now
        passed, total = self.processes.all_reduce(passed if self.processes.first else 0.0, figure)
        self.state.stage_seconds += passed
        self.state.seconds += passed
        return passed, total

    def _show(self, stage: Stage) -> None:
        share, (speed, _), meter = self._share(), self.meter.rates(), self.meter
        left = self.state.stage_seconds * (1 - share) / share if share else None
        self.display.show(Standing(stage.name, share, self.state.step, meter.loss, meter.accuracy, speed, left))


def _number(value: float | Tensor) -> float:
    return float(value.detach() if isinstance(value, Tensor) else value)
