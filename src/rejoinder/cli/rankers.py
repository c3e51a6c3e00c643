"""Rankers by their names on the command line.

A model (its folder, a bundled name, an id on the Hugging Face Hub), keywords (bm25, bm25-data19, tfidf), or vectors of
an ENCODER: sim:, sim-history: (with a context's earlier messages), map:, map-cosine:, map-dot:. An ENCODER is a
sentence encoder (minilm, use, st:NAME), FOLDER or FOLDER#h (h of one of our models), or FOLDER#r. A sentence encoder by
itself ranks as it does behind sim:. hybrid: before any of these adds BM25 to its scores.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rejoinder
from rejoinder.errors import InputError
from rejoinder.models import bundled
from rejoinder.progress import note, track

if TYPE_CHECKING:
    from rejoinder.baselines.encoders import VectorEncoder
    from rejoinder.corpora.example import Example, Split
    from rejoinder.evaluation.contexts import ContextReading
    from rejoinder.models.encoder import Encoder
    from rejoinder.models.families import Model
    from rejoinder.models.joined import JoinedEncoder
    from rejoinder.ranker import Ranker
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.stores import Store

# Rankers that need no model, with their classes in `baselines.keywords`.
BASELINES = {"bm25": "BM25", "bm25-data19": "Data19BM25", "tfidf": "TfIdf"}
OVER_ENCODERS = ("sim", "sim-history", "map", "map-cosine", "map-dot")
HYBRID = "hybrid:"
ENCODER_BLOCK = 5000  # examples ranked at once, but by BM25, whose scores depend on all candidates of a call


class Rankers:
    """Opens rankers (fulfils `evaluation.table_run.Rankers`). Those of one encoder share it: it encodes a text once."""

    def __init__(self) -> None:
        self._encoders: dict[str, VectorEncoder] = {}
        self._models: dict[str, Encoder | JoinedEncoder] = {}
        self._opened: list[Any] = []  # models that say what they cut

    def open(self, name: str, training: Callable[[], Sequence[Example]]) -> tuple[Ranker, dict[str, Any] | None]:
        """See `evaluation.table_run.Rankers`."""
        ranker = self.ranker(name)
        return ranker, fit_ranker(name, ranker, training)

    def identity(self, name: str) -> str:
        """Return the name, with the contents of a folder in it, or where there is none our version."""
        kind, colon, place = name.rpartition(":")
        folder, mark, output = place.partition("#")
        no_folder = not Path(folder).is_dir() and not bundled.is_name(folder)
        if no_folder and ("/" not in folder or kind.endswith("st")):
            return f"{name} of rejoinder {rejoinder.__version__}"
        return f"{kind}{colon}{_contents(folder)}{mark}{output}"

    def block_size(self, name: str) -> int | None:
        """See `evaluation.table_run.Rankers`."""
        return None if name == "bm25" or name.startswith(HYBRID) else ENCODER_BLOCK

    def ranker(self, name: str) -> Ranker:
        """Open a ranker by its name; see the tables above."""
        from rejoinder.baselines import encoders, keywords

        if name.startswith(HYBRID):
            return keywords.Hybrid(self.ranker(name.removeprefix(HYBRID)))
        if encoders.is_encoder(name):
            return self._over("sim", name)
        if name in BASELINES:
            return getattr(keywords, BASELINES[name])()
        kind, colon, encoder = name.partition(":")
        if colon and kind in OVER_ENCODERS:
            return self._over(kind, encoder)
        if "/" not in name and not Path(name).exists() and not bundled.is_name(name):
            over = [*(f"{kind}:ENCODER" for kind in OVER_ENCODERS), f"{HYBRID}MODEL"]
            known = ", ".join([*bundled.names(), *BASELINES, *over])
            folder = "a model folder (RUN/model of a training run)"
            raise InputError(f"no model {name!r}: give {folder}, {known}, {encoders.ENCODERS}")
        return self._load(name)

    def _load(self, name: str) -> Model:
        model = rejoinder.load(name)
        self._opened.append(counting(model))
        return model

    def say_cuts(self) -> None:
        """Note how many messages the models have cut."""
        for model in self._opened:
            say_cuts(model, "messages")

    def _over(self, kind: str, name: str) -> Ranker:
        from rejoinder.baselines.vectors import Map, MapSettings, Sim, WithHistory

        if name not in self._encoders:
            self._encoders[name] = self._encoder(name)
        encoder = self._encoders[name]
        if kind == "sim":
            return Sim(encoder)
        if kind == "sim-history":
            return Sim(WithHistory(encoder))
        similarity: Any = kind.removeprefix("map").removeprefix("-") or "better"
        return Map(encoder, MapSettings(similarity=similarity))

    def _encoder(self, name: str) -> VectorEncoder:
        from rejoinder.baselines import encoders
        from rejoinder.models.families import text_encoder
        from rejoinder.models.persistence import CONFIG, VOCABULARY

        if encoders.is_encoder(name):
            return encoders.open_encoder(name)
        if not name or not (set(name) & {"/", "#"} or Path(name).exists() or bundled.is_name(name)):
            known = f"a model folder (with #r for its r), {', '.join(bundled.names())}"
            raise InputError(f"no encoder {name!r}: give {known}, {encoders.ENCODERS}")
        place, mark, output = name.rpartition("#")
        if mark and output not in ("h", "r"):
            raise InputError(f"{name}: of a model there are {place}#h and {place}#r, no #{output}")
        own = all((Path(name) / file).is_file() for file in (CONFIG, VOCABULARY))
        if mark or own or not Path(name).is_dir():
            place = place or name
            if place not in self._models:
                self._models[place] = text_encoder(self._load(place))
            model = self._models[place]
            return encoders.TextVectors(model.transfer) if output == "r" and mark else model.remembering()
        return encoders.open_encoder(name)


def counting(model: Any) -> Any:
    """Let a model note which messages it cuts; return it."""
    model.cut_texts = set()
    return model


def say_cuts(model: Any, what: str) -> None:
    """Note how many of `what` a model has cut, copies counted once."""
    if count := len(getattr(model, "cut_texts", None) or ()):
        length, tokenizer = model.message_length, model.tokenizer
        long = f"{count:,} of the {what} {'is' if count == 1 else 'are'} longer than the {length} {tokenizer.unit} that"
        note(f"{long} {os.path.normpath(model.name)} reads: the {tokenizer.cut} is cut")


def _contents(place: str) -> str:
    """Return the fingerprint of a model folder, or a digest of all files of another folder."""
    from rejoinder.files import file_digest
    from rejoinder.models.persistence import VOCABULARY, fingerprint, read_config

    folder = Path(place)
    if not folder.is_dir() or (folder / VOCABULARY).is_file():
        return fingerprint(read_config(place)[1])
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    digests = [(str(file.relative_to(folder)), file_digest(file)) for file in files]
    return hashlib.sha256(repr(digests).encode()).hexdigest()


def read_training(
    rankers: Mapping[str, Ranker], path: Path, split: Split | None, cut: ContextReading, fit_on: Path | None, seed: int
) -> list[Example]:
    """Read the examples that rankers which learn are fitted to, from `fit_on` or the training part of `path`."""
    from rejoinder.baselines.fitting import Fitted
    from rejoinder.evaluation.tasks import ranked_part, training_examples

    if not (names := [name for name, ranker in rankers.items() if isinstance(ranker, Fitted)]):
        return []
    with track(f"Reading {fit_on or path} for {', '.join(names)}", unit="examples") as advance:
        found = training_examples(fit_on or path, path, ranked_part(path, split), seed=seed, progress=advance)
    return [replace(example, context=tuple(cut.cut(example.context))) for example in found]


def fit_ranker(name: str, ranker: Ranker, training: Callable[[], Sequence[Example]]) -> dict[str, Any] | None:
    """Fit a ranker that learns; show and return what it learned, None for one that does not."""
    from rejoinder.baselines.fitting import Fitted

    if not isinstance(ranker, Fitted):
        return None
    examples = training()
    with track(f"Fitting {name}", total=2 * len(examples), unit="texts") as advance:
        learned = dict(ranker.fit(examples, advance))
    note(f"{name}: {', '.join(f'{key} {_short(value)}' for key, value in learned.items() if key != 'curves')}")
    return learned


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def open_index(folder: Path, model: str | None, *, verify: bool = False, light: bool = False) -> Index | Store:
    """Open an index with the model that it names, or with the one at `model`; `light` is `open_model`'s."""
    from rejoinder.retrieval import stores
    from rejoinder.retrieval.manifest import read_manifest
    from rejoinder.retrieval.segments import open_model

    encoder = counting(open_model(model or read_manifest(folder).model.locate(folder), light=light))
    return stores.open_index(folder, encoder, verify=True if verify else None)
