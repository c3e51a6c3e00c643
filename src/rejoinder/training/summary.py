"""What came out of a run."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError
from rejoinder.files import DIGEST, atomic_file, is_altered, parse_json, signed
from rejoinder.training.recipe import Recipe
from rejoinder.training.state import RunState


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What came out of a run.

    Attributes:
        name: of the recipe.
        run: the run's folder.
        model: the model folder: the best by validation, the last one without validation.
        steps: batches done.
        examples: pairs trained on, repeated ones counted again.
        tokens: real tokens of those pairs.
        seconds: time of training, validation and checkpoints included.
        best_step: step of the model.
        validation: its figures; empty without validation.
        precision: "fp32", "bf16" or "fp16".
        already_finished: True if the run had been finished before, so that nothing was done.
    """

    name: str
    run: str
    model: str
    steps: int
    examples: int
    tokens: int
    seconds: float
    best_step: int
    validation: dict[str, float]
    precision: str
    already_finished: bool = False

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return dataclasses.asdict(self)


def save_summary(summary: RunSummary, path: Path) -> None:
    """Write the summary as JSON: the mark of a finished run."""
    with atomic_file(path) as part:
        part.write_text(json.dumps(signed(summary.to_json()), indent=2) + "\n", encoding="utf-8")


def load_summary(path: Path, run: Path, model: Path) -> RunSummary:
    """Read the summary of a finished run, which may have been moved since."""
    try:
        values = parse_json(path.read_text(encoding="utf-8"))
        if DIGEST in values and is_altered(values):  # earlier versions wrote none
            raise ValueError("it was altered")
        values.pop(DIGEST, None)
        return RunSummary(**{**values, "run": str(run), "model": str(model), "already_finished": True})
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: not a run's summary ({error}); delete it and run again") from None


def figure_text(name: str, value: float) -> str:
    """A figure of validation for people: a loss as it is, everything else in percent."""
    return f"{value:.3f}" if name == "loss" else f"{value:.1%}"


def model_card(recipe: Recipe, state: RunState, precision: str) -> str:
    """README.md of the model folder."""
    figures = [
        f"- 1-of-{recipe.validation.candidates} {name} on the validation split: {figure_text(name, value)}"
        for name, value in state.validation.items()
    ]
    lines = [
        f"# {recipe.name}",
        "",
        *([recipe.description, ""] if recipe.description else []),
        "A model for conversational response selection, trained by [Rejoinder](https://github.com/rejoinder/rejoinder).",
        "",
        f"- trained on {state.examples:,} pairs ({state.tokens:,} tokens) in {state.step:,} steps, in {precision}",
        *(["- trained for 8-bit embeddings and 16-bit weights"] if recipe.quantization.enabled else []),
        *figures,
        *([_start(recipe)] if recipe.init.given else []),
        f"- digest of the examples: `{state.data}`",
        "",
        "```python",
        "import rejoinder",
        'model = rejoinder.load("this/folder")',
        'model.score([["How are you?"]], [["Fine, thanks.", "At noon."]])',
        "```",
        "",
    ]
    return "\n".join(lines)


def _start(recipe: Recipe) -> str:
    rounded = ", quantised: training began with its rounded weights" if recipe.init.quantized else ""
    return f"- started from the model with the fingerprint `{recipe.init.fingerprint}`{rounded}"
