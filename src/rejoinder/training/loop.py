"""The training loop: stages, steps, validation, checkpoints, written out.

One optimisation step is `Trainer._step`: `batches` packs its pairs, the model encodes them,
`losses` ranks each response among all, `forward_backward` runs both passes, and `optimization` has
the rates and the update.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from rejoinder.devices import move, runs_ahead, synchronize, uses_segments
from rejoinder.errors import InputError
from rejoinder.networks.layers import Encodings
from rejoinder.networks.packing import TokenBatch
from rejoinder.training.data.batches import PairBatch, StepBatch, prefetched
from rejoinder.training.display import Display, interrupts
from rejoinder.training.distributed import Processes, joined, tuned
from rejoinder.training.graphs import GraphedPasses
from rejoinder.training.negatives import Miner, NegativesTable, Tables
from rejoinder.training.parts import (
    MetricsRecorder,
    Parts,
    batch_maker,
    build_parts,
    negative_tables,
)
from rejoinder.training.preparation.inputs import examples_digest
from rejoinder.training.recipe import budgets, optimization
from rejoinder.training.recipe.losses import InBatchLoss, Loss, SummedLoss, annealed_scale
from rejoinder.training.recipe.settings import Recipe
from rejoinder.training.recipe.stages import Stage
from rejoinder.training.recipe_files import check_stages, resolve_recipe
from rejoinder.training.run.folder import RunFolder, check_model, open_run
from rejoinder.training.run.summary import RunSummary, load_summary, save_summary, summarise

Clock = Callable[[], float]


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C, or a request to terminate; a checkpoint has been written."""


def train(
    recipe: Recipe | str | Path,
    run: str | Path,
    *,
    data: str | Path | Sequence[str | Path] | None = None,
    settings: Mapping[str, Any] | None = None,
    display: Display | None = None,
    clock: Clock = time.monotonic,
) -> RunSummary:
    """Train as a recipe says, or continue where an earlier process stopped.

    On a CPU, with budgets in steps or epochs and the same number of threads and processes, the
    weights are the same bit for bit, interrupted or not. Processes that torchrun or Ray started
    train together (see `distributed`).

    Args:
        recipe: a TOML file, the name of a recipe that comes with Rejoinder ("convert-quick",
            "poly/bi-small"), or one that has been read (see `recipe_files.load_recipe`).
        run: folder for everything that comes out; a finished run is left as it is.
        data: folder of examples, for `data.train`; of several, the others are for `data.mix`.
        settings: values that override the recipe's, by dotted key, such as {"stage.0.minutes": 2}.
        display: shows progress (`training.display.TerminalDisplay`).
        clock: seconds from any fixed moment.

    Raises:
        InputError: recipe, data and folder do not fit each other.
        RejoinderError: the loss is not finite, or another process is gone; a checkpoint stays.
        TrainingInterrupted: Ctrl-C; a checkpoint has been written.

    >>> summary = train("convert-quick", data="data/chats", run="runs/small")  # doctest: +SKIP
    """
    if not isinstance(settings, Mapping | None):
        raise InputError(
            f'give settings by dotted key, such as {{"stage.0.minutes": 2}}; given: {settings!r}'
        )
    resolved = resolve_recipe(recipe, data or (), settings or {})
    shown = display or Display()
    path = Path(run)
    with joined() as processes, ExitStack() as stack, closing(shown):

        def begin() -> Trainer | RunSummary:
            folder = RunFolder(path)
            if processes.first:
                folder = stack.enter_context(open_run(path, resolved))
            if folder.summary.exists():
                check_model(folder)
                return load_summary(folder, examples_digest(resolved))
            check_stages(resolved, processes)
            parts = build_parts(resolved, folder, processes, shown)
            return Trainer(resolved, folder, processes, shown, clock, parts)

        trainer = processes.rank_zero_first(begin)
        return trainer if isinstance(trainer, RunSummary) else trainer.run()


class Trainer:
    """One run, as one process sees it."""

    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        processes: Processes,
        display: Display,
        clock: Clock,
        parts: Parts,
    ) -> None:
        self.recipe = recipe
        self.folder = folder
        self.processes = processes
        self.display = display
        self.clock = clock
        self.parts = parts
        self.module = parts.module
        self.machine = parts.machine
        self.state = parts.state
        self.checkpoint = parts.checkpoint
        self.loss = SummedLoss(InBatchLoss(recipe.loss.smoothing))
        self.recorder = MetricsRecorder(recipe, folder, processes, display, parts)
        self.optimizer: Any = None  # of the stage
        self.graphed: GraphedPasses | None = None  # of a stage whose steps a card can replay
        self.stop = threading.Event()
        self.rate = 0.0  # learning rate of the last step
        self.scale: float | Tensor = 0.0  # factor of the scores in the last step
        self.counted_to = 0.0  # by the clock

    def run(self) -> RunSummary:
        """Train to the end, and write the summary."""
        self.processes.broadcast_parameters(self.module)
        recorder = closing(self.recorder)
        with recorder, interrupts(self.display) as self.stop, tuned(self.machine):
            self.recorder.open()
            while self.state.stage < len(self.recipe.stage):
                self._stage(self.recipe.stage[self.state.stage])
        summary = summarise(self.recipe, self.folder, self.state, self.machine.precision)
        if self.processes.first:
            save_summary(summary, self.folder.summary, self.state.data)
        return summary

    def _stage(self, stage: Stage) -> None:
        """Train a stage from where the run stands."""
        state = self.state
        optimization.prepare_stage(self.module, stage)
        self.optimizer = optimization.build_optimizer(self.module, stage)
        if self.checkpoint is not None and state.stage_step:
            self.checkpoint.restore_optimizer(self.module, self.optimizer)
        self.checkpoint = None  # its tensors are not needed any more
        self.graphed = self._graphed_passes(stage)
        if note := budgets.warm_up_note(stage, self.parts.budgets[state.stage]):
            self.display.note(note)
        self.counted_to = self.clock()
        if self.recipe.init.given and self.parts.validators and state.best is None:
            self._validate(stage)  # the model to start from, so that training never makes it worse
            self._checkpoint(stage)
        tables = None
        if stage.hard_negatives is not None:
            tables = negative_tables(self.recipe, self.parts, state.stage, self.folder)
        while self._has_budget():
            stop = None if tables is None else tables.window(state.stage_step)[1]
            with closing(self._batches(stage, tables, stop)) as batches:
                while self._has_budget() and (stop is None or state.stage_step < stop):
                    batch, loss = self._step(stage, batches)
                    self._after_step(stage, batch, loss)
        self._finish_stage(stage)

    def _step(self, stage: Stage, batches: Iterator[StepBatch]) -> tuple[StepBatch, Loss]:
        """Do one optimisation step: take pairs, encode, rank, go back, update."""
        batch = next(batches)
        if not self.module.training:  # walking through all modules takes milliseconds
            self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        self.scale = self._scale()
        self._seed(0)
        passes = self._passes if self.graphed is None else self.graphed
        loss = passes(batch, self.scale)
        if self.processes.count > 1:
            loss = self.processes.sum_gradients(self.module.parameters(), loss)
        self._update(stage)
        return batch, loss

    def _passes(self, batch: StepBatch, scale: float | Tensor) -> Loss:
        """Do both passes of a batch, part by part.

        A card may record those of a single part: the seed is set before.
        """
        distiller = self.parts.distiller
        teacher_output = batch.teacher_output
        if distiller is not None and not distiller.ahead:
            teacher_output = distiller(batch)

        def encode(part: int) -> Encodings:
            if len(batch.parts) > 1:
                self._seed(part)
            return self._encode(batch.parts[part])

        loss = forward_backward(
            parts=len(batch.parts),
            encode=encode,
            loss=lambda encodings: self._loss(batch, encodings, teacher_output, scale),
            backward=lambda value: torch.autograd.backward(self.machine.scaler.scale(value)),
        )
        return loss._replace(value=loss.value.detach())  # nothing of the step is kept

    def _graphed_passes(self, stage: Stage) -> GraphedPasses | None:
        """Return what replays a stage's steps on a card, if its steps can be recorded.

        An exchange with other processes, a teacher that reads texts in every step, and gradient
        caching, which draws the same dropout twice, cannot.
        """
        distiller = self.parts.distiller
        asks = distiller is not None and not distiller.ahead
        cached = 0 < stage.micro_batch < stage.batch_size
        if self.machine.device.type != "cuda" or self.processes.count > 1 or asks or cached:
            return None
        return GraphedPasses(self._passes, self.module.parameters(), self.machine.device)

    def _seed(self, part: int) -> None:
        """Make dropout a function of seed, step, process and part."""
        numbers = (self.recipe.seed, self.state.step, self.processes.rank, part)
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))

    def _encode(self, batch: PairBatch) -> Encodings:
        """Return the matrices that the loss is a function of."""
        with self._precision():
            encodings: Encodings = self.module.encode_pairs(
                batch.tokens, batch.pairs, batch.histories
            )
        responses = encodings.get("response")
        if responses is None or len(responses) == batch.pairs:
            return encodings
        own = responses[: batch.pairs]
        return {**encodings, "response": own, "negatives": responses[batch.pairs :]}

    @contextmanager
    def _precision(self) -> Iterator[None]:
        quantized = self.parts.quantized
        with self.machine.autocast(), nullcontext() if quantized is None else quantized.rounded():
            yield

    def _loss(
        self,
        batch: StepBatch,
        encodings: Encodings,
        teacher_output: Any,
        scale: float | Tensor,
    ) -> Loss:
        """Return the loss of this process's contexts among all responses."""
        if self.parts.packing == "masked":  # the model compares its guesses itself
            value = encodings["losses"].sum() * batch.weight
            return Loss(value, encodings["hits"].sum() * batch.weight)
        equal = batch.equal if self.recipe.loss.mask_equal_responses else None
        encodings = self._with_all_responses(encodings)
        drift = encodings.pop("drift", None)
        loss: Loss = self.loss(
            encodings,
            scale=scale,
            equal=equal,
            first=batch.first,
            pairs=batch.pairs,
            present=batch.present,
        )
        if self.parts.distiller is not None:
            loss = self.parts.distiller.add(loss, batch, encodings, scale, teacher_output)
        if drift is not None:  # an anchored trunk: how far its vectors have moved
            moved = drift.sum() / batch.pairs
            figures = {**loss.figures, "loss_anchor": moved.detach()}
            loss = Loss(loss.value + self.recipe.init.anchor * moved, loss.accuracy, figures)
        return loss

    def _with_all_responses(self, encodings: Encodings) -> dict[str, Tensor]:
        """Replace this process's responses by those of all, the additional negatives after them."""
        sides = [encodings[name] for name in ("response", "negatives") if name in encodings]
        if self.processes.count > 1:
            sides = [self.processes.gather(responses) for responses in sides]
        others = {name: h for name, h in encodings.items() if name not in ("response", "negatives")}
        if not sides:  # of contexts that are joined with candidates
            return others
        return {**others, "response": sides[0] if len(sides) == 1 else torch.cat(sides)}

    def _scale(self) -> float | Tensor:
        """Return the factor of the scores in the next step."""
        if self.parts.learned_scale is not None:
            return self.parts.learned_scale.value
        amounts = [budget.amount for budget in self.parts.budgets]
        stage = self.state.stage
        used = sum(amounts[:stage]) + self._share() * amounts[stage]  # ended stages count in full
        share = used / sum(amounts)
        return annealed_scale(self.recipe.scale, self.module.output_size, self.state.step, share)

    def _share(self) -> float:
        """Return the share of the stage's budget that is used."""
        budget = self.parts.budgets[self.state.stage]
        used = self.state.stage_seconds if budget.in_seconds else self.state.stage_step
        return min(1.0, used / budget.amount)

    def _has_budget(self) -> bool:
        patience = self.recipe.validation.patience
        return self._share() < 1 and not (patience > 0 and self.state.without_gain >= patience)

    def _update(self, stage: Stage) -> None:
        """Clip the gradients and update the parameters."""
        state = self.state
        scaler = self.machine.scaler
        if stage.clip_norm or stage.clip_embedding_norm:
            scaler.unscale_(self.optimizer)
        if stage.clip_embedding_norm:
            embedding = self.module.embedding.parameters()
            optimization.clip_gradients(embedding, stage.clip_embedding_norm)
        if stage.clip_norm:
            groups = self.optimizer.param_groups
            trained = (parameter for group in groups for parameter in group["params"])
            optimization.clip_gradients(trained, stage.clip_norm)
        self.rate = optimization.learning_rate(
            stage.schedule,
            stage.learning_rate,
            step=state.stage_step,
            share=self._share(),
            drops=state.drops,
            in_seconds=self.parts.budgets[state.stage].in_seconds,
        )
        optimization.set_learning_rate(self.optimizer, self.rate)
        scaler.step(self.optimizer)
        scaler.update()
        if self.parts.learned_scale is not None:
            self.parts.learned_scale.clamp()
        state.step += 1
        state.stage_step += 1
        if self.parts.quantized is not None:
            self.parts.quantized.update_ranges(state.step)

    def _batches(
        self, stage: Stage, tables: Tables | None, stop: int | None
    ) -> Generator[StepBatch, None, None]:
        """Make the stage's batches from where it stands to `stop`."""
        table = None if tables is None else self._table(stage, tables)
        make = batch_maker(self.recipe, self.parts, self.state.stage, self.processes, table)
        return prefetched(make, self.state.stage_step, stop)

    def _table(self, stage: Stage, tables: Tables) -> NegativesTable:
        """Return the hard negatives of the next batches, mined now if they begin a window."""
        state = self.state
        miner = Miner(
            store=self.parts.prepared.train,
            config=tables.config,
            encode=self._encode_sides,
            encode_responses=self._encode_responses,
            padding_id=self.module.padding_id,
            segments=uses_segments(self.machine.device),
        )

        def pause() -> None:
            # Others that wait cannot be told to stop; with them, Ctrl-C counts after the next step.
            if self.stop.is_set() and self.processes.count == 1:
                self._interrupt(stage)

        self.module.eval()
        table, mined = self.processes.rank_zero_first(
            lambda: tables.load_or_mine(state.step, state.stage_step, miner, self.display, pause)
        )
        if self.processes.all_reduce(mined)[0]:
            self._count_time(0)
            self._checkpoint(stage)  # from here on no earlier table is needed
            if self.processes.first:
                tables.forget_others(state.step, state.stage_step)
        return table

    def _encode_sides(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        encodings = self._encode(move(batch, self.machine.device))
        if "scores" in encodings:
            return encodings["scores"], encodings["scores"]
        return encodings["context"], encodings["response"]

    def _encode_responses(self, tokens: TokenBatch) -> Tensor:
        with self._precision():
            return self.module.encode(move(tokens, self.machine.device), "response")

    def _after_step(self, stage: Stage, batch: StepBatch, loss: Loss) -> None:
        """Count the step and do what is due: write metrics, validate, write a checkpoint, stop."""
        state = self.state
        seconds, tokens = self._count_time(batch.tokens)
        state.examples += batch.pairs
        state.tokens += int(tokens)
        self.recorder.meter.add(batch.pairs, int(tokens), loss, seconds)
        if not runs_ahead(self.machine.device):  # it would have to be waited for
            self.recorder.check_finite(stage, self.rate, weights=False)
        if state.step % self.recipe.log.every_steps == 0:
            self._wait()
            self.recorder.log(stage, self.rate, self.scale)
        epoch = self.parts.orders[state.stage].batches_per_epoch
        due = self.parts.validators and state.validation_due(self.recipe.validation, epoch)
        gained = due and self._validate(stage)
        if gained or state.checkpoint_due(self.recipe.checkpoint):
            if not due:  # a validation has waited, and its own time is none of the steps'
                self._wait()
            self._checkpoint(stage)
        self.recorder.show(stage, self._share())
        if self._count_time(self.stop.is_set())[1]:
            self._interrupt(stage)

    def _wait(self) -> None:
        """Let a card do what was launched, and count the time to the steps so far."""
        if runs_ahead(self.machine.device):
            synchronize(self.machine.device)
            self.recorder.meter.wait(self._count_time(0)[0])

    def _interrupt(self, stage: Stage) -> NoReturn:
        if self.state.saved_step != self.state.step:
            self._checkpoint(stage)
        self.processes.barrier()  # before one that ends makes the launcher end the others
        raise TrainingInterrupted(
            f"stopped at step {self.state.step:,}, checkpoint written;"
            " the same command continues from there"
        )

    def _finish_stage(self, stage: Stage) -> None:
        """Write the last metrics, validate, and write a checkpoint that begins the next stage."""
        state = self.state
        if self.parts.budgets[state.stage].in_seconds:
            steps = state.stage_step
            settings = budgets.repeating_settings(state.stage, stage, steps)
            self.display.note(
                f"{stage.name}: {steps:,} steps in this time; on any machine: {settings}"
            )
        if state.summed:
            self._wait()
            self.recorder.log(stage, self.rate, self.scale)
        if not self.parts.validators:
            state.best_step = state.step
            self.recorder.save_model()
        elif state.validated_step != state.step:
            self._validate(stage)
        state.enter_next_stage()
        self.optimizer = None
        self._checkpoint(stage)

    def _validate(self, stage: Stage) -> bool:
        """Validate and save the model if it is the best so far; return whether it is."""
        self._wait()
        scale = self.scale or self._scale()
        return self.recorder.validate(stage, self.rate, scale, self._encode_sides)

    def _checkpoint(self, stage: Stage) -> None:
        self.recorder.checkpoint(stage, self.rate, self.optimizer)

    def _count_time(self, figure: float) -> tuple[float, float]:
        """Count the time since the last call; return it, and a figure summed over all processes.

        The clock is the first process's.
        """
        now = self.clock()
        own = now - self.counted_to if self.processes.first else 0.0
        self.counted_to = now
        passed, total = self.processes.all_reduce(own, figure)
        self.state.stage_seconds += passed
        self.state.seconds += passed
        return passed, total


def forward_backward(
    parts: int,
    encode: Callable[[int], Encodings],
    loss: Callable[[Encodings], Loss],
    backward: Callable[[Tensor], None] = Tensor.backward,
) -> Loss:
    """Return the loss of a batch, and add its gradients to the parameters'.

    Each response is a negative of every other context, so adding up the gradients of smaller
    batches is another loss. But the pairs are coupled through their encodings alone, and these are
    small (GradCache: Gao et al. 2021, section 3). So all parts are encoded without keeping what a
    gradient needs; the loss of all encodings, each matrix holding the rows of all parts, gives the
    gradient of each; and part after part is encoded again to pass its own on.

    `encode` gets the number of a part and must give the same twice (dropout too); `backward` may
    scale the loss.
    """
    if parts == 1:
        result = loss(encode(0))
        backward(result.value)
        return result
    with torch.no_grad():
        pieces = [encode(part) for part in range(parts)]
    whole = {
        name: torch.cat([piece[name] for piece in pieces]).requires_grad_() for name in pieces[0]
    }
    rows = {name: [len(piece[name]) for piece in pieces] for name in whole}
    del pieces
    result = loss(whole)
    backward(result.value)
    gradients = {
        name: torch.split(matrix.grad, rows[name])
        for name, matrix in whole.items()
        if matrix.grad is not None
    }
    for part in range(parts):
        encodings = encode(part)
        # A part without history, or a frozen side, depends on no parameter that learns.
        names = [name for name in gradients if encodings[name].requires_grad]
        if names:
            torch.autograd.backward(
                [encodings[name] for name in names], [gradients[name][part] for name in names]
            )
    return result
