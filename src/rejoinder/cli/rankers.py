"""Rankers by their names on the command line: model folders, keyword baselines, SIM and MAP over an encoder.

| name | ranker |
|---|---|
| a model folder, the name of a bundled one, an id on the Hugging Face Hub | the model |
| bm25, bm25-data19, tfidf | keywords |
| sim:ENCODER, map:ENCODER | vectors of a pretrained encoder, as they are or through a learned map |
| sim-history:ENCODER | the same, a context being the mean of its newest message's vector and the earlier ones' |
| map-cosine:ENCODER, map-dot:ENCODER | MAP ranked by one of them, not by the better on what chooses |

| ENCODER | what encodes |
|---|---|
| minilm, use | all-MiniLM-L6-v2; the multilingual Universal Sentence Encoder (extra `encoders`) |
| FOLDER, FOLDER#h | h of one of our models |
| FOLDER#r | its r, which is made for other tasks |
| FOLDER or ID of sentence-transformers | that model |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.errors import InputError
from rejoinder.models import bundled

if TYPE_CHECKING:
    from rejoinder.baselines.encoders import VectorEncoder
    from rejoinder.corpora.example import Example, Split
    from rejoinder.evaluation.contexts import Reading
    from rejoinder.models.encoder import Encoder
    from rejoinder.ranker import Ranker


BASELINES = {"bm25": "BM25", "bm25-data19": "Data19BM25", "tfidf": "TfIdf"}
"""Rankers that need no model: the name in place of a model folder, and the class in `baselines.keywords`."""

OVER_ENCODERS = ("sim", "sim-history", "map", "map-cosine", "map-dot")
"""What stands before the colon and the encoder."""


class Opener:
    """Opens rankers; those that share an encoder share one object, which encodes each text once."""

    def __init__(self) -> None:
        self._encoders: dict[str, VectorEncoder] = {}
        self._models: dict[str, Encoder] = {}

    def ranker(self, name: str) -> Ranker:
        """A ranker by its name; see the tables above.

        Raises:
            InputError: there is no such ranker.
            MissingExtraError: it needs a library that is not installed.
        """
        if name in BASELINES:
            from rejoinder.baselines import keywords

            ranker: Ranker = getattr(keywords, BASELINES[name])()
            return ranker
        kind, colon, encoder = name.partition(":")
        if colon and kind in OVER_ENCODERS:
            return self._over(kind, encoder)
        if "/" not in name and not Path(name).exists() and not bundled.is_name(name):
            known = ", ".join([*BASELINES, *(f"{kind}:ENCODER" for kind in OVER_ENCODERS), *bundled.names()])
            raise InputError(f"no model {name!r}: give a model folder (RUN/model of a training run) or one of: {known}")
        import rejoinder

        return rejoinder.load(name)

    def _over(self, kind: str, name: str) -> Ranker:
        from rejoinder.baselines.vectors import SIMILARITIES, Map, MapSettings, Sim, WithHistory

        if name not in self._encoders:
            self._encoders[name] = self._encoder(name)
        encoder = self._encoders[name]
        if kind == "sim":
            return Sim(encoder)
        if kind == "sim-history":
            return Sim(WithHistory(encoder))
        fixed = [similarity for similarity in SIMILARITIES if kind == f"map-{similarity}"]
        return Map(encoder, MapSettings(similarity=fixed[0] if fixed else "better"))

    def _encoder(self, name: str) -> VectorEncoder:
        from rejoinder.baselines import encoders

        if name in ("minilm", "use"):
            return encoders.open_encoder(name)
        if not name or ("/" not in name and "#" not in name and not Path(name).exists()):
            raise InputError(
                f"no encoder {name!r}: give minilm, use, a model folder (with #r for its r), or a folder or an id "
                "(owner/name) of sentence-transformers"
            )
        place, mark, output = name.rpartition("#")
        if mark and output not in ("h", "r"):
            raise InputError(f"{name}: of a model there are {place}#h and {place}#r, no #{output}")
        if mark or _is_ours(Path(name)) or bundled.is_name(name):
            model = self._model(place or name)
            return encoders.TextVectors(model.transfer) if output == "r" and mark else model.remembering()
        return encoders.open_encoder(name)

    def _model(self, name: str) -> Encoder:
        import rejoinder

        if name not in self._models:
            self._models[name] = rejoinder.load(name)
        return self._models[name]


def _is_ours(path: Path) -> bool:
    from rejoinder.models.persistence import CONFIG, VOCABULARY

    return (path / CONFIG).is_file() and (path / VOCABULARY).is_file()


def open_ranker(name: str) -> Ranker:
    """One ranker by its name; see `Opener.ranker`."""
    return Opener().ranker(name)


def open_rankers(names: Iterable[str]) -> dict[str, Ranker]:
    """Several rankers, which share their encoders; errors as of `Opener.ranker`."""
    opener = Opener()
    return {name: opener.ranker(name) for name in names}


def scores_depend_on_the_call(name: str) -> bool:
    """Whether a ranker has to be given all candidates in one call: the textbook BM25 counts words in them."""
    return name == "bm25"


def learning(rankers: Mapping[str, Ranker]) -> list[str]:
    """The names of the rankers that have to be fitted."""
    from rejoinder.baselines.fitting import Fitted

    return [name for name, ranker in rankers.items() if isinstance(ranker, Fitted)]


def read_training(
    rankers: Mapping[str, Ranker], path: Path, evaluated: Split | None, reading: Reading, fit_on: Path | None, seed: int
) -> list[Example]:
    """The training examples that some of the rankers are fitted to; none if none of them learns.

    Args:
        rankers: by their names.
        path: the data set that is going to be ranked.
        evaluated: which split of it; None: of a folder the test split.
        reading: what is read of each context.
        fit_on: other data to learn from; None: the data set's own training split.
        seed: of the draw of at most 10,000.

    Raises:
        InputError: some learn, but there is nothing to learn from.
    """
    from dataclasses import replace

    from rejoinder.evaluation.fitting import training_examples
    from rejoinder.progress import track

    if not (names := learning(rankers)):
        return []
    with track(f"Reading {fit_on or path} for {', '.join(names)}", unit="examples") as advance:
        # Other data is not what is ranked, so its training split is free to be learned from.
        part: Split | None = evaluated if fit_on is None or fit_on.resolve() == path.resolve() else "test"
        found = training_examples(fit_on or path, part, seed=seed, progress=advance)
    return [replace(example, context=tuple(reading.cut(example.context))) for example in found]


def fit_ranker(name: str, ranker: Ranker, examples: Sequence[Example], data: str) -> dict[str, Any] | None:
    """Fit a ranker that learns and tell on standard error how it went.

    Args:
        name: what the ranker is called.
        ranker: any; one that does not learn is left as it is.
        examples: see `read_training`.
        data: what the data set is called that is ranked afterwards.

    Returns:
        What was learned, with the learning curves of MAP; None for a ranker that does not learn.
    """
    from rejoinder.baselines.fitting import Fitted
    from rejoinder.progress import note, track

    if not isinstance(ranker, Fitted):
        return None
    with track(f"Fitting {name}", total=2 * len(examples), unit="texts") as advance:
        learned = dict(ranker.fit(examples, advance))
    shown = {key: value for key, value in learned.items() if key != "curves"}
    note(f"{name}: {', '.join(f'{key} {_short(value)}' for key, value in shown.items())}")
    return {"model": name, "data": data, **learned}


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
