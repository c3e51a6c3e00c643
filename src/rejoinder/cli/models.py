"""Models and data that verbs name: rankers, encoders, indexes, examples.

See `encoders.open` for the names of models. Models note how many texts they truncated.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.cli.arguments import SplitOption
from rejoinder.progress import Advance, note, track

if TYPE_CHECKING:
    from rejoinder.corpora.schema import Example
    from rejoinder.encoders.engines import EngineName
    from rejoinder.encoders.protocol import Ranker
    from rejoinder.evaluation.contexts import ContextReading
    from rejoinder.retrieval.index import Index

_QUIET = 1.5  # seconds for which a command waits for an index without a word

LANGUAGE_TEXTS = 200  # whose language is looked at

# examples per call, except for BM25, whose scores depend on all candidates of a call
ENCODER_BLOCK = 5000

EXAMPLES = 10_000  # drawn at random to choose or fit one number or a few


def report_language(models: Sequence[str], texts: Iterable[str], kind: str, advice: str) -> None:
    """Note that models read English alone, and most of the texts, of a `kind`, are not English."""
    from rejoinder.encoders.open import reads_english_only
    from rejoinder.text.languages import are_mostly_english

    if not all(map(reads_english_only, models)):
        return
    if not are_mostly_english(list(itertools.islice(texts, LANGUAGE_TEXTS))):
        verb = "reads" if len(models) == 1 else "read"
        names = " and ".join(models)
        note(f"Most {kind} are not English, which is all that {names} {verb}; {advice}")


class OpenRankers:
    """Opens and fits rankers (fulfils `lab.measurement.Rankers`)."""

    def __init__(self, device: str = "cpu") -> None:
        from rejoinder.lab.rankers import LabOpener

        self._opener = LabOpener(device)

    def open(
        self, name: str, training: Callable[[], Sequence[Example]]
    ) -> tuple[Ranker, dict[str, Any] | None]:
        """See `lab.measurement.Rankers`."""
        ranker = self.ranker(name)
        return ranker, fit_ranker(name, ranker, training)

    def identity(self, name: str) -> str:
        """See `lab.measurement.Rankers`."""
        from rejoinder.encoders.open import identity

        return identity(name)

    def block_size(self, name: str) -> int | None:
        """See `lab.measurement.Rankers`."""
        from rejoinder.encoders.open import HYBRID

        return None if name == "bm25" or name.startswith(HYBRID) else ENCODER_BLOCK

    def ranker(self, name: str) -> Ranker:
        """Open a ranker by its name."""
        return self._opener.open(name)

    def report_truncated(self) -> None:
        """Note how many messages the models have truncated."""
        for model in self._opener.opened:
            report_truncated(model, "messages")


def report_truncated(model: Any, what: str) -> None:
    """Note how many of `what` a model has truncated, copies counted once."""
    from rejoinder.encoders.conversation import TruncationCounter

    if isinstance(model, TruncationCounter) and model.truncated:
        count = len(model.truncated)
        verb = "is" if count == 1 else "are"
        length = model.message_length
        tokenizer = model.tokenizer
        name = os.path.normpath(model.name)
        note(
            f"{count:,} of the {what} {verb} longer"
            f" than the {length} {tokenizer.unit} that {name} reads: the {tokenizer.cut} is cut"
        )


def read_training(
    rankers: Mapping[str, Ranker],
    path: Path,
    split: SplitOption | None,
    cut: ContextReading,
    fit_on: Path | None,
) -> list[Example]:
    """Read the examples that learning rankers are fitted to.

    They come from `fit_on` or the training part of `path`.
    """
    from rejoinder.encoders.protocol import FittedRanker
    from rejoinder.evaluation.tasks import ranked_part, training_examples

    if not (
        names := [name for name, ranker in rankers.items() if isinstance(ranker, FittedRanker)]
    ):
        return []
    with track(f"Reading {fit_on or path} for {', '.join(names)}", unit="examples") as advance:
        examples = training_examples(
            fit_on or path, path, ranked_part(path, split), progress=advance
        )
    return [replace(example, context=tuple(cut.cut(example.context))) for example in examples]


def read_sample(path: Path, advance: Advance) -> list[Example]:
    """Draw `EXAMPLES` from a file, or from the split `valid` of a data folder."""
    from rejoinder.corpora.forms.examples import read_examples
    from rejoinder.evaluation.tasks import sample

    part = read_examples(path, "valid" if path.is_dir() else None)
    return sample(part, EXAMPLES, progress=advance)


def fit_ranker(
    name: str, ranker: Ranker, training: Callable[[], Sequence[Example]]
) -> dict[str, Any] | None:
    """Fit a ranker that learns; show and return what it learned, None for one that does not."""
    from rejoinder.encoders.protocol import FittedRanker

    if not isinstance(ranker, FittedRanker):
        return None
    examples = training()
    with track(f"Fitting {name}", total=2 * len(examples), unit="texts") as advance:
        learned = dict(ranker.fit(examples, advance))
    shown = [f"{key} {_short(value)}" for key, value in learned.items() if key != "curves"]
    note(f"{name}: {', '.join(shown)}")
    return learned


def _short(value: object) -> str:
    return (
        f"{value:.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def named_model() -> str | None:
    """Return the model in the environment, by which an index or a classifier is opened."""
    from rejoinder.stores.models import MODEL

    return os.environ.get(MODEL) or None


@contextlib.contextmanager
def latest(opened: Index) -> Iterator[None]:
    """Keep others from changing an index, which is taken as it is now; say so if that takes time.

    Raises:
        BusyError: somebody else has been changing it for too long; see `Store.lock`.
    """
    from rejoinder.errors import BusyError

    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(opened.store.lock(_QUIET))
        except BusyError:
            note(f"{opened.store} is being written by another process; waiting for it")
            stack.enter_context(opened.store.lock())
        opened.refresh()
        yield


def open_index(
    name: str, *, engine: EngineName = "auto", light: bool = False, device: str = "cpu"
) -> Index:
    """Open an index with the model in the environment, or with the one that it names.

    `engine`, `light` and `device` are `encoders.open.load`'s.
    """
    from rejoinder.encoders.conversation import track_truncation
    from rejoinder.encoders.open import open_encoder
    from rejoinder.retrieval.index import Index

    index = Index.open(name)
    model = named_model() or index.manifest.model.locate(index.store)
    encoder = open_encoder(model, engine=engine, light=light, device=device)
    index.use(track_truncation(encoder))
    return index
