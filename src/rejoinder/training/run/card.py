"""README of the model that a run trained."""

from __future__ import annotations

from collections.abc import Mapping

from rejoinder.training.recipe.settings import Recipe
from rejoinder.training.run.state import RunState


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
