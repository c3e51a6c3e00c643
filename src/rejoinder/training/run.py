"""A run on disk: its folder, where it stands, its checkpoints, and what came out.

Killing the process at any moment loses only what came after the last checkpoint, which is replaced
in one step. Random generators are not in it: dropout and the order of examples are functions of the
seed and the step.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rejoinder.checks import list_paths
from rejoinder.documents import Described
from rejoinder.encoders import persistence
from rejoinder.errors import InputError
from rejoinder.files import (
    DIGEST,
    atomic_file,
    check_replaceable,
    check_shared,
    locked,
    name_path_on_enospc,
    parse_json,
    remove_leftovers,
)
from rejoinder.settings import find_recipe, toml_value
from rejoinder.training.recipe.settings import Checkpoint, Recipe, Validation
from rejoinder.training.recipe_files import (
    first_difference,
    load_recipe,
    parse_recipe,
    recipe_document,
    save_recipe,
)

_LOCK = ".lock"
_EXAMPLES = "examples_digest"  # of a summary
_FORMAT = 3
# validation examples below which recall@1 moves by luck, so that the finer mrr chooses the model
FEW = 1_000


class RunFolder:
    """Paths of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.toml"  # resolved, every default written out
        self.checkpoint = path / "checkpoint" / "last.safetensors"  # everything needed to continue
        self.model = path / "model"  # the best by validation
        self.metrics = path / "metrics.jsonl"
        self.tensorboard = path / "tensorboard"
        self.tokens = path / "tokens"  # vocabulary and token arrays
        self.hard_negatives = path / "hard_negatives"
        self.summary = path / "summary.json"  # what came out, once the run is finished

    @property
    def has_begun(self) -> bool:
        """Return whether anything that was learned is in it."""
        return any(file.exists() for file in (self.checkpoint, self.model, self.summary))

    def forget(self) -> None:
        """Remove what was logged of steps whose results are not there."""
        self.metrics.unlink(missing_ok=True)
        if self.tensorboard.exists():
            shutil.rmtree(self.tensorboard)


def resolve_recipe(
    recipe: Recipe | str | Path,
    data: str | Path | Sequence[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
) -> Recipe:
    """Read a recipe, with places of examples and other settings that override its own.

    See `loop.train`.
    """
    need = (
        "name data by a folder or file of examples, or several;"
        " rejoinder.corpora.forms.examples.write_examples makes a file"
    )
    places = list_paths(data, need)
    values: dict[str, Any] = {"data.train": places[0]} if places else {}
    values |= settings or {}
    overrides = [
        f"{key}={toml_value(str(v) if isinstance(v, Path) else v)}" for key, v in values.items()
    ]
    if not isinstance(recipe, Recipe):
        return load_recipe(find_recipe(recipe), overrides, mixed=places[1:])
    if not overrides:
        return recipe
    return parse_recipe(recipe_document(recipe), overrides, mixed=places[1:])


@contextlib.contextmanager
def open_run(path: Path, recipe: Recipe) -> Iterator[RunFolder]:
    """Lock a run's folder, a new one or one that the same recipe began, and tidy it.

    Refuse any other.
    """
    folder = RunFolder(path)
    _check(folder, recipe)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path / _LOCK, f"{path} is being trained"):
        for directory in (path, folder.checkpoint.parent, folder.tokens, folder.hard_negatives):
            remove_leftovers(directory)
            for lock in directory.glob("*.lock"):
                if lock != path / _LOCK:  # nobody else is in here
                    lock.unlink()
        _check(folder, recipe)  # another process may have begun in between
        if not folder.has_begun:
            folder.forget()
            save_recipe(recipe, folder.recipe)
        check_replaceable(folder.model, persistence.FOLDER, overwrite=True)
        with name_path_on_enospc(path):
            yield folder


def _check(folder: RunFolder, recipe: Recipe) -> None:
    if not folder.recipe.exists():
        check_shared(folder.path, f"a run, which has a {folder.recipe.name}", [_LOCK])
    elif not folder.has_begun:
        return  # such as after an error in the recipe
    elif difference := first_difference(load_recipe(folder.recipe, resolved=True), recipe):
        raise InputError(
            f"{folder.path} is a run of another recipe: {difference};"
            " name another folder, or give the recipe that it was started with"
        )


def check_model(folder: RunFolder) -> None:
    """Refuse a run whose best model cannot be opened any more: no checkpoint holds it."""
    try:
        persistence.whole_config(folder.model)
    except InputError as error:
        raise InputError(
            f"{error}, or train again in another folder; {folder.path} cannot go on without it"
        ) from None


@dataclass
class RunState:
    """State of a run; the examples of the next batch follow from it."""

    step: int = 0  # batches done in all stages
    stage: int = 0  # number of the stage, from 0; the number of stages once the last one is done
    stage_step: int = 0  # batches done in this stage
    stage_seconds: float = 0.0  # spent in this stage while a process lived
    seconds: float = 0.0  # spent in all stages
    examples: int = 0  # pairs trained on, repeated ones counted again
    tokens: int = 0  # real tokens of those pairs
    best: float | None = None
    """Best recall@1 in validation so far, mrr where there are few examples."""
    best_step: int = 0
    without_gain: int = 0  # validations of this stage since its best one
    stage_best: float | None = None  # the same of this stage
    stage_loss: float | None = None  # lowest validation loss of this stage
    stalled: int = 0
    """Validations since the lowest loss, or since the last drop of the learning rate."""
    drops: int = 0  # of the learning rate in this stage, where its schedule has them
    validated_at: float = 0.0  # `seconds` at the last validation
    validated_step: int = 0
    saved_at: float = 0.0  # `seconds` at the last checkpoint
    saved_step: int | None = None
    validation: dict[str, float] = dataclasses.field(default_factory=dict)
    """Figures of the best one."""
    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    """Of what is logged, since the last line."""
    summed: int = 0  # batches in those sums
    data: str = ""  # digest of the examples

    def validation_due(self, config: Validation, batches_per_epoch: int) -> bool:
        """Return whether validation is due."""
        if config.every_steps is not None and self.step % config.every_steps == 0:
            return True
        if config.every_epochs is not None:
            return self.stage_step % max(1, round(config.every_epochs * batches_per_epoch)) == 0
        return (
            config.every_seconds is not None
            and self.seconds - self.validated_at >= config.every_seconds
        )

    def checkpoint_due(self, config: Checkpoint) -> bool:
        """Return whether a checkpoint is due."""
        if config.every_steps is not None and self.step % config.every_steps == 0:
            return True
        return (
            config.every_seconds is not None
            and self.seconds - self.saved_at >= config.every_seconds
        )

    def record_validation(self, figures: dict[str, float], patience: int | None) -> bool:
        """Count a validation and return whether it is the best so far.

        `patience` is that of a plateau schedule.
        """
        self._record_loss(figures["loss"], patience)
        self.validated_step = self.step
        self.validated_at = self.seconds
        chosen_by = ("mrr", "recall@1") if figures["examples"] < FEW else ("recall@1", "mrr")
        score = figures[chosen_by[0]]
        tie = figures[chosen_by[1]]
        if self.stage_best is None or score > self.stage_best:
            self.stage_best = score
            self.without_gain = 0
        else:
            self.without_gain += 1
        if self.best is not None and (score, tie) <= tuple(
            self.validation[name] for name in chosen_by
        ):
            return False
        self.best = score
        self.best_step = self.step
        self.validation = figures
        return True

    def _record_loss(self, loss: float, patience: int | None) -> None:
        if self.stage_loss is None or loss < self.stage_loss:
            self.stage_loss = loss
            self.stalled = 0
            return
        self.stalled += 1
        if patience is not None and self.stalled > patience:
            self.drops = self.drops + 1
            self.stalled = 0

    def enter_next_stage(self) -> None:
        """Reset what is counted by stage."""
        self.stage += 1
        self.stage_step = 0
        self.stage_seconds = 0.0
        self.stage_best = None
        self.without_gain = 0
        self.stage_loss = None
        self.stalled = 0
        self.drops = 0


@dataclass
class LoadedCheckpoint:
    """A checkpoint in memory."""

    state: RunState
    tensors: dict[str, Tensor]  # "weights/NAME" and "optimizer/ENTRY/NAME"
    scaler: dict[str, Any]  # state of the loss scaling

    def restore_module(self, module: nn.Module) -> None:
        """Copy parameters and buffers into the module."""
        with torch.no_grad():
            for name, value in named_tensors(module).items():
                value.copy_(self.tensors[f"weights/{name}"])

    def restore_optimizer(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Give a new optimiser the state of the old one."""
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        order = [
            names[id(parameter)]
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in self.tensors.items():
            kind, _, rest = key.partition("/")
            if kind == "optimizer":
                entry, _, name = rest.partition("/")
                state.setdefault(order.index(name), {})[entry] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def save_checkpoint(
    path: Path,
    state: RunState,
    module: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    scaler: Mapping[str, Any],
) -> None:
    """Write all that is needed to go on bit for bit; between stages there is no optimiser."""
    tensors = {f"weights/{name}": value for name, value in named_tensors(module).items()}
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for parameter, values in optimizer.state.items() if optimizer is not None else ():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer/{key}/{names[id(parameter)]}"] = value
    whole = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps(
        {"format": _FORMAT, "state": dataclasses.asdict(state), "scaler": dict(scaler)}
    )
    with atomic_file(path) as part:
        save_file(whole, part, {"checkpoint": text, DIGEST: _digest(whole, text)})


def load_checkpoint(path: Path) -> LoadedCheckpoint | None:
    """Read a checkpoint, if there is one; refuse a damaged one, and those of other versions."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            content = parse_json(metadata["checkpoint"])
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']}, this version reads {_FORMAT}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        if metadata[DIGEST] != _digest(tensors, metadata["checkpoint"]):
            raise ValueError("it was altered after it was written")
        return LoadedCheckpoint(RunState(**content["state"]), tensors, content["scaler"])
    except (SafetensorError, ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(
            f"{path}: not a whole checkpoint ({error}); delete the run's folder to start again"
        ) from None


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Return the SHA-256 of a text and of tensors in main memory."""
    digest = hashlib.sha256(text.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name, shared ones once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


@dataclass(frozen=True, repr=False)
class RunSummary(Described):
    """Results of a run. `rejoinder.load(summary.model)` opens the model."""

    name: str  # of the recipe
    run: str  # the run's folder
    model: str  # the model folder: the best by validation, the last one without validation
    steps: int
    examples: int  # pairs trained on, repeated ones counted again
    tokens: int  # real tokens of those pairs
    seconds: float  # validation and checkpoints included
    best_step: int  # step of the model
    validation: dict[str, float]  # figures of the model; empty without validation
    precision: str  # "fp32", "bf16" or "fp16"
    already_finished: bool = False  # before this call, which did nothing

    def facts(self) -> Mapping[str, object]:
        """Return what the run is shown by."""
        return {
            **self.to_json(),
            "seconds": round(self.seconds, 1),
            "validation": figure_texts(self.validation),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return dataclasses.asdict(self)


def summarise(recipe: Recipe, folder: RunFolder, state: RunState, precision: str) -> RunSummary:
    """Sum up a run that has ended."""
    same = ("examples", "tokens", "seconds", "best_step", "validation")
    values: dict[str, Any] = {name: getattr(state, name) for name in same}
    values |= {"name": recipe.name, "run": str(folder.path), "model": str(folder.model)}
    return RunSummary(**values, steps=state.step, precision=precision)


def save_summary(summary: RunSummary, path: Path, examples: str = "") -> None:
    """Write a summary as JSON, which marks the run as finished on `examples`, by their digest."""
    values = summary.to_json() | {_EXAMPLES: examples}
    with atomic_file(path) as part:
        part.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def load_summary(folder: RunFolder, examples: str = "") -> RunSummary:
    """Read the summary of a finished run, which may have been moved since.

    Raises:
        InputError: it is damaged, or the run was trained on other examples than those of this
            digest. One that is empty, here or there, is not compared.
    """
    try:
        values = parse_json(folder.summary.read_text(encoding="utf-8"))
        own = values.pop(_EXAMPLES, "")
        moved = {"run": str(folder.path), "model": str(folder.model), "already_finished": True}
        summary = RunSummary(**{**values, **moved})
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{folder.summary}: not a run's summary ({error}); delete it and run again"
        ) from None
    if examples and own and examples != own:
        raise InputError(
            f"{folder.path} is finished, on other examples than these; name another folder to train"
            " on these"
        )
    return summary


def figure_texts(figures: Mapping[str, float]) -> dict[str, str]:
    """Format figures of validation for people.

    All but the loss and the number of examples are in percent.
    """
    shown = {name: value for name, value in figures.items() if name != "examples"}
    return {
        name: f"{value:.3f}" if name == "loss" else f"{value:.1%}" for name, value in shown.items()
    }


def model_card(recipe: Recipe, state: RunState, precision: str) -> str:
    """Return README.md of the model folder."""
    facts = [
        (
            f"trained on {state.examples:,} pairs"
            f" ({state.tokens:,} tokens) in {state.step:,} steps, in {precision}"
        )
    ]
    if recipe.quantization.enabled:
        facts.append("trained for 8-bit embeddings and 16-bit weights")
    examples = f"{state.validation.get('examples', 0):,.0f} examples of the validation split"
    for name, value in figure_texts(state.validation).items():
        facts.append(f"1-of-{recipe.validation.candidates} {name} on {examples}: {value}")
    if recipe.init.given:
        rounded = (
            ", quantised: training began with its rounded weights" if recipe.init.quantized else ""
        )
        facts.append(
            f"started from the model with the fingerprint `{recipe.init.fingerprint}`{rounded}"
        )
    facts.append(f"digest of the examples: `{state.data}`")
    described = recipe.description and f"{recipe.description}\n\n"
    return _CARD.format(
        name=recipe.name, described=described, facts="\n".join(f"- {fact}" for fact in facts)
    )


_CARD = """\
# {name}

{described}\
A model for conversational response selection, trained by \
[Rejoinder](https://github.com/rejoinder/rejoinder).

{facts}

```python
import rejoinder
model = rejoinder.load("this/folder")
model.score([["How are you?"]], [["Fine, thanks.", "At noon."]])
```
"""
