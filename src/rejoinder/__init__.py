"""Rejoinder: pick the best reply to a conversation out of a set of candidates.

>>> import rejoinder
>>> model = rejoinder.load("bi-small")                              # doctest: +SKIP
>>> model.score([["How are you?"]], [["Fine, thanks.", "At noon."]])  # doctest: +SKIP
>>> summary = rejoinder.train("fine-tune-heads", data="data/chats", run="runs/chats",
...                           settings={"init.model": "bi-small"})  # doctest: +SKIP
>>> model = rejoinder.load(summary.model)                           # doctest: +SKIP
>>> examples = rejoinder.read_examples("data/chats", split="test")  # doctest: +SKIP
>>> rejoinder.evaluate(model, examples).recall[1]                   # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rejoinder.telemetry import switch_telemetry_off

if TYPE_CHECKING:
    from rejoinder.corpora.forms.examples import read_examples
    from rejoinder.corpora.schema import Candidate, Example
    from rejoinder.curation.mining import mine
    from rejoinder.encoders.open import load
    from rejoinder.encoders.protocol import DualEncoder, Ranker
    from rejoinder.evaluation.ranking import evaluate
    from rejoinder.retrieval.index import Index
    from rejoinder.training.loop import train

# Here since every module of the package and every process of ours imports this one first.
switch_telemetry_off()

__version__ = "0.1.0"
__all__ = [
    "Candidate",
    "DualEncoder",
    "Example",
    "Index",
    "Ranker",
    "__version__",
    "evaluate",
    "load",
    "mine",
    "read_examples",
    "train",
]

# Imported on first use: `import rejoinder` stays fast, and a library of an extra is never needed
# for it.
_HOMES = {
    "Candidate": "rejoinder.corpora.schema",
    "DualEncoder": "rejoinder.encoders.protocol",
    "Example": "rejoinder.corpora.schema",
    "Index": "rejoinder.retrieval.index",
    "Ranker": "rejoinder.encoders.protocol",
    "evaluate": "rejoinder.evaluation.ranking",
    "load": "rejoinder.encoders.open",
    "mine": "rejoinder.curation.mining",
    "read_examples": "rejoinder.corpora.forms.examples",
    "train": "rejoinder.training.loop",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rejoinder' has no attribute {name!r}")
    try:
        home = importlib.import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        raise ImportError(
            f"rejoinder.{name} needs {error.name}, which is not here;"
            " install it, or open an ONNX export with rejoinder.runtime,"
            " which needs numpy, onnxruntime and tokenizers",
            name=error.name,
        ) from error
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
