"""Summary of a finished run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rejoinder.documents import Described
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.json_parsing import parse_json
from rejoinder.training.recipe.settings import Recipe
from rejoinder.training.run.card import figure_texts
from rejoinder.training.run.folder import RunFolder
from rejoinder.training.run.state import RunState

_EXAMPLES = "examples_digest"  # of a summary


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
