"""Parts of a run, built before its first step, and the recorder of what becomes of it.

The parts are data, network, teacher, orders and state. The recorder writes metrics, checkpoints and
the best model by validation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from rejoinder.devices import uses_segments
from rejoinder.encoders import persistence
from rejoinder.encoders.families import Packing, build_module, family_of
from rejoinder.errors import InputError, RejoinderError
from rejoinder.networks.quantization.training import QuantizedTraining
from rejoinder.settings import non_default_fields
from rejoinder.training.data.batches import (
    MixedOrder,
    PairBatches,
    Portion,
    StepBatch,
)
from rejoinder.training.data.histories import ChangedHistorySource
from rejoinder.training.display import Display, Progress
from rejoinder.training.distillation import Distiller, open_distiller
from rejoinder.training.distributed import (
    Machine,
    Processes,
    RankZeroFailedError,
    choose_half,
    set_up,
)
from rejoinder.training.initialisation import copy_initial_weights, is_anchored, is_frozen
from rejoinder.training.masked_lm import (
    LengthBucketedOrder,
    MaskedBatches,
    Masking,
    pair_lengths,
)
from rejoinder.training.metrics import Encode, Meter, MetricsLog, Validator
from rejoinder.training.negatives import NegativesTable, Tables, with_negatives
from rejoinder.training.preparation.inputs import Prepared, prepare, with_vectors
from rejoinder.training.recipe.budgets import Budget, stage_budget
from rejoinder.training.recipe.losses import LearnedScale, attach_scale
from rejoinder.training.recipe.settings import Quantization, Recipe
from rejoinder.training.recipe.stages import Plateau, Stage
from rejoinder.training.run.card import figure_texts, model_card
from rejoinder.training.run.checkpoint import LoadedCheckpoint, load_checkpoint, save_checkpoint
from rejoinder.training.run.folder import RunFolder, check_model
from rejoinder.training.run.state import RunState

ExampleOrder: TypeAlias = (
    MixedOrder | LengthBucketedOrder
)  # which examples each batch of a stage has


@dataclass(frozen=True)
class Parts:
    """Parts of a run."""

    machine: Machine
    prepared: Prepared
    module: Any  # the network
    packing: Packing  # how it reads pairs
    learned_scale: LearnedScale | None  # None: the recipe's schedule gives the scale
    quantized: QuantizedTraining | None
    distiller: Distiller | None
    masking: Masking | None  # of a network that is pretrained
    orders: list[ExampleOrder]  # of each stage
    budgets: list[Budget]  # of each stage
    validators: dict[str, Validator]  # by name of the data
    state: RunState
    checkpoint: LoadedCheckpoint | None  # of a run that goes on


def build_parts(recipe: Recipe, folder: RunFolder, processes: Processes, display: Display) -> Parts:
    """Build what a run trains with, as it was at the last checkpoint if there is one.

    Initial values are drawn in a fixed order from the recipe's seed: network, teacher's projection.
    """
    machine = set_up(recipe.compute, recipe.quantization)
    prepared = prepare(recipe, folder.tokens, display, device=machine.device)
    torch.manual_seed(recipe.seed)
    module = build_module(recipe.model, prepared.tokenizer.rows)
    anchored = is_anchored(recipe, module)
    initial_scale = None
    if recipe.init.given and (anchored or not folder.checkpoint.exists()):
        initial_scale = copy_initial_weights(module, recipe.init)
    if prepared.words is not None:
        module.embedding.weight.data.copy_(torch.from_numpy(prepared.words))
    learned_scale = attach_scale(module, recipe.scale, initial_scale)
    distiller = open_distiller(
        recipe.distillation, prepared.train, prepared.teacher_vectors, module, machine.device
    )
    module.to(machine.device)
    packing = family_of(module.config).packing
    quantized = _quantize(recipe.quantization, module, machine)
    orders = build_orders(recipe, prepared, packing)
    budgets = [
        stage_budget(stage, order.batches_per_epoch)
        for stage, order in zip(recipe.stage, orders, strict=True)
    ]
    if anchored:  # the texts are read with the initial weights: a checkpoint replaces these
        prepared = with_vectors(prepared, recipe, folder.tokens, module, machine, display)
    checkpoint = load_checkpoint(folder.checkpoint)
    if checkpoint is None:
        state = RunState(data=prepared.digest)
    else:
        state = checkpoint.state
        _check_resumable(recipe, folder, state, prepared.digest)
        _restore(checkpoint, module, machine)
        display.note(f"Continuing {folder.path} at step {state.step:,}")
    if is_frozen(recipe, module):
        prepared = with_vectors(prepared, recipe, folder.tokens, module, machine, display)
    validators = {
        name: Validator(
            store,
            recipe.validation,
            module.padding_id,
            processes,
            packing,
            uses_segments(machine.device),
        )
        for name, store in prepared.valid.items()
    }
    return Parts(
        machine=machine,
        prepared=prepared,
        module=module,
        packing=packing,
        learned_scale=learned_scale,
        quantized=quantized,
        distiller=distiller,
        masking=Masking.from_tokenizer(prepared.tokenizer) if packing == "masked" else None,
        orders=orders,
        budgets=budgets,
        validators=validators,
        state=state,
        checkpoint=checkpoint,
    )


def _quantize(
    quantization: Quantization, module: Any, machine: Machine
) -> QuantizedTraining | None:
    if not quantization.enabled:
        return None
    half = choose_half(quantization, machine.precision)
    return QuantizedTraining(module, half, range_every=quantization.range_every)


def _restore(checkpoint: LoadedCheckpoint, module: Any, machine: Machine) -> None:
    checkpoint.restore_module(module)
    machine.scaler.load_state_dict(checkpoint.scaler)
    checkpoint.state.saved_at = checkpoint.state.seconds
    checkpoint.state.saved_step = checkpoint.state.step


def build_orders(recipe: Recipe, prepared: Prepared, packing: Packing) -> list[ExampleOrder]:
    """Return the order of examples of each stage."""
    orders: list[ExampleOrder] = []
    for number, stage in enumerate(recipe.stage):
        seed = (recipe.seed, number)
        if packing == "masked":
            lengths = pair_lengths(prepared.train)
            orders.append(LengthBucketedOrder(lengths, stage.batch_tokens, stage.batch_size, seed))
        else:
            orders.append(MixedOrder(prepared.sizes, recipe.data.shares, stage.batch_size, seed))
    return orders


def _check_resumable(recipe: Recipe, folder: RunFolder, state: RunState, digest: str) -> None:
    """Refuse to continue with other examples, or without the best model so far."""
    if state.data != digest:
        places = " and ".join([recipe.data.train, *(mixed.train for mixed in recipe.data.mix)])
        raise InputError(
            f"{folder.path}: the examples in {places} are not those that the run was started with;"
            " give those, or name another folder"
        )
    if state.best is not None or folder.model.exists():
        check_model(folder)


def batch_maker(
    recipe: Recipe, parts: Parts, number: int, processes: Processes, table: NegativesTable | None
) -> Callable[[int], StepBatch]:
    """Return what makes this process's part of each batch of a stage, on the run's device.

    `table` has its hard negatives.
    """
    stage = recipe.stage[number]
    seed = (recipe.seed, number)
    order = parts.orders[number]
    device = parts.machine.device
    portion = Portion(processes.rank, processes.count, stage.micro_batch, uses_segments(device))
    store, negatives = with_negatives(parts.prepared.train, stage, seed, table)
    if isinstance(order, LengthBucketedOrder):
        assert parts.masking is not None
        return MaskedBatches(store, order, parts.masking, seed, portion, device).make
    history_source = None
    if non_default_fields(recipe.history) and store.history is not None:
        history_source = ChangedHistorySource(recipe.history, store.history.counts, seed)
    teacher = parts.distiller if parts.distiller is not None and parts.distiller.ahead else None
    return PairBatches(
        store=store,
        order=order,
        padding_id=parts.module.padding_id,
        portion=portion,
        packing=parts.packing,
        negatives=negatives,
        history_source=history_source,
        teacher=teacher,
        device=device,
    ).make


def negative_tables(recipe: Recipe, parts: Parts, number: int, folder: RunFolder) -> Tables:
    """Return the tables of hard negatives of a stage that mines them."""
    config = recipe.stage[number].hard_negatives
    order = parts.orders[number]
    assert config is not None
    assert isinstance(order, MixedOrder)
    budget = parts.budgets[number]
    steps = None if budget.in_seconds else int(budget.amount)
    return Tables(config, order, steps, folder.hard_negatives, (recipe.seed, number))


@dataclass(eq=False)
class MetricsRecorder:
    """Writes and shows what becomes of a run; only the first process writes."""

    recipe: Recipe
    folder: RunFolder
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
        shown = ", ".join(f"{name} {value}" for name, value in figure_texts(figures).items())
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
            card=model_card(self.recipe, self.state, self.parts.machine.precision),
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
            save_checkpoint(
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
