"""The one door: every model that a user may name opens here.

Command, Python, server, intents and adapters all use it.

| name | what opens |
|---|---|
| FOLDER, `bi-small`, owner/name | a model of ours: by folder, by name, by id on the Hub |
| FOLDER with onnx.json | its ONNX programs, without PyTorch or for a faster start (see `load`) |
| FOLDER of sentence-transformers, `st:NAME`, `minilm` | an encoder of another library |
| `use`, `e5` | an encoder of many languages |
| `bm25`, `tfidf` | keywords, to rank by |
| `sim:X`, `sim-history:X` | cosine of X's vectors of single messages, or with earlier ones |
| `hybrid:X` | X with BM25 added to its scores |

X is any of the encoders, or `FOLDER#h`, `FOLDER#r`: the encodings of a model, or its r.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.digests import file_digest
from rejoinder.encoders import bundled
from rejoinder.encoders.conversation import track_truncation
from rejoinder.encoders.engines import EngineName, check_engine, takes_programs
from rejoinder.encoders.onnx.encoder import open_folder
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.errors import InputError, shown
from rejoinder.progress import Advance

if TYPE_CHECKING:
    from rejoinder.encoders.conversation import TextEncoder
    from rejoinder.encoders.joined import JoinedEncoder
    from rejoinder.encoders.sentence import SentenceEncoder

Vectors: TypeAlias = Literal["r", "h", "both"]
"""Of a model of ours: r, the reduction's output (CONVERT 3.1); h, the encoding of a context; r and
then h."""

MULTILINGUAL = ("use", "e5")
LIBRARY_NAMES = ("minilm", *MULTILINGUAL)
LIBRARY_PREFIX = "st:"
KEYWORDS: Mapping[str, Callable[[ModuleType], Ranker]] = {
    "bm25": lambda keywords: keywords.BM25(),
    "tfidf": lambda keywords: keywords.TfIdf(),
}
"""Rankers that need no model, made of the module `words.keywords`, which is imported when one is
needed."""

OVER_ENCODERS = ("sim", "sim-history")
HYBRID = "hybrid:"
MODULES = "modules.json"  # of a folder of sentence-transformers


def load(
    name: str | Path,
    *,
    engine: EngineName = "auto",
    light: bool = False,
    precision: str = "auto",
    threads: int | None = None,
    device: str = "cpu",
) -> Ranker:
    """Open a model by its name; see the table above for all names but those that only rank.

    Args:
        name: a folder, the name of a model, or its id on the Hugging Face Hub.
        engine: "torch" or "onnx" computes with PyTorch or by the folder's ONNX programs; "auto"
            with PyTorch where it is installed, else by the programs.
        light: let "auto" prefer the ONNX programs of a folder that has them, on a processor: they
            start a second sooner, without PyTorch, and answer one question sooner.
        precision: "fp32", "bf16" (PyTorch), "int8" (x86 processors), or "auto": bf16 or, for some
            models, int8 if the processor computes it fast, else fp32. ONNX programs are int8 where
            there are such, else fp32.
        threads: processor threads to use; None leaves the library's own choice.
        device: where to compute, as PyTorch names it: "cpu", "cuda", "cuda:1", "mps", or "auto":
            a CUDA card if there is one. There is no "int8" on a card.

    Returns:
        A `Ranker`. One that also encodes, which all do but cross-encoders, is a `DualEncoder`:
            `assert isinstance(model, rejoinder.DualEncoder)` tells a type checker.

    Raises:
        InputError: there is no such model, its folder is incomplete or altered, the device is not
            there, or the engine does not compute this model.
    """
    check_engine(engine)
    if not isinstance(name, str | Path):
        raise InputError(f"a model is a folder or a name, such as 'bi-small'; given: {shown(name)}")
    if not str(name):
        raise bundled.unknown(name)
    if is_library(name):
        return _open_library(str(name), precision, device, engine)
    if takes_programs(name, engine, light=light, precision=precision, device=device):
        return open_folder(name, threads, precision)
    try:
        from rejoinder.encoders import persistence
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{name} needs {error.name}, which is not here: pip install 'rejoinder[torch]',"
            " or open an ONNX export",
            name=error.name,
        ) from error
    return persistence.load(name, precision=precision, threads=threads, device=device)


def open_encoder(
    name: str | Path,
    *,
    engine: EngineName = "auto",
    light: bool = False,
    precision: str = "auto",
    threads: int | None = None,
    device: str = "cpu",
) -> DualEncoder:
    """Open a model that encodes replies ahead of time, as an index needs it; see `load`."""
    encoder = load(
        name, engine=engine, light=light, precision=precision, threads=threads, device=device
    )
    if isinstance(encoder, DualEncoder):
        return encoder
    raise InputError(
        f"{name} reads a reply together with the conversation,"
        " so it cannot encode replies ahead of time; index them with a bi- or poly-encoder"
        " or ConveRT, and let this one rank the best: rejoinder reply --ranker"
    )


def open_texts(
    name: str,
    vectors: str = "r",
    precision: str = "auto",
    device: str = "cpu",
) -> SentenceEncoder:
    """Open an encoder of single texts, such as an intent classifier reads.

    `vectors` is for models of ours. Encoders of other libraries compute in float32: a classifier
    gives the same answers on every machine.
    """
    if vectors not in get_args(Vectors):
        raise InputError(
            f"vectors {vectors!r} are unknown; allowed are {', '.join(get_args(Vectors))}"
        )
    if is_library(name):
        return _open_library(name, "fp32", device)
    model = load(name, precision=precision, device=device)
    return as_texts(_of_texts(model), vectors, precision)


def _of_texts(model: Any) -> TextEncoder | JoinedEncoder:
    """Return a model that gives vectors of single texts; others are refused."""
    from rejoinder.encoders.conversation import TextEncoder

    if isinstance(model, TextEncoder):
        return model
    from rejoinder.encoders.joined import JoinedEncoder

    if isinstance(model, JoinedEncoder):
        return model
    from rejoinder.encoders.families import text_encoder

    return text_encoder(model)


def open_all(
    names: Sequence[str],
    vectors: str = "r",
    precision: str = "auto",
    device: str = "cpu",
) -> SentenceEncoder:
    """Open one encoder of texts, or several whose vectors are concatenated; see `open_texts`.

    InputError: all are of other libraries, which have one kind of vectors, and `vectors` is not r.
    """
    from rejoinder.encoders.sentence import concatenate

    if vectors in get_args(Vectors) and vectors != "r" and all(map(is_library, names)):
        raise InputError(
            f"vectors {vectors!r} are of Rejoinder's models, and {', '.join(names)} has one kind;"
            " leave vectors out, or name a Rejoinder model"
        )
    return concatenate([open_texts(name, vectors, precision, device) for name in names])


def as_texts(
    model: TextEncoder | JoinedEncoder, vectors: Any, precision: str | None = None
) -> SentenceEncoder:
    """Return a model of ours as an encoder of single texts.

    Responses keep their own encodings for "h".
    """
    from rejoinder.encoders.sentence import SentenceEncoder

    def encode(texts: Sequence[str], advance: Advance | None) -> FloatArray:
        return text_vectors(model, texts, vectors, advance)

    sizes = {"r": model.reduction_size, "h": model.size}
    return SentenceEncoder(
        model.name,
        encode,
        model.encode_responses if vectors == "h" else None,
        digest=lambda: model.fingerprint,
        size=sizes.get(vectors, sum(sizes.values())),
        vectors=vectors,
        precision=precision,
        reopen=functools.partial(as_texts, model, vectors, precision),
    )


def text_vectors(
    model: TextEncoder | JoinedEncoder,
    texts: Sequence[Any],
    vectors: Any,
    advance: Advance | None = None,
) -> FloatArray:
    """Return the vectors of texts, each the newest message of a conversation.

    For "h", conversations are allowed among them, as lists of texts.
    """
    if vectors == "r":
        return model.transfer(texts, advance)
    h = model.encode_contexts(
        [[text] if isinstance(text, str) else text for text in texts], advance
    )
    return h if vectors == "h" else np.hstack([unit_rows(model.transfer(texts)), h])


class RankerOpener:
    """Opens whatever ranks, by its name.

    Rankers over one encoder share it, so that it encodes each text once.
    """

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self.opened: list[Any] = []
        """The models that were opened; they count the messages they truncate."""
        self._cached: dict[str, Any] = {}  # encoders by name

    def open(self, name: str) -> Ranker:
        """Open a ranker; see the table above."""
        from rejoinder.encoders.words import keywords

        if name.startswith(HYBRID):
            return keywords.Hybrid(self.open(name.removeprefix(HYBRID)))
        if name in KEYWORDS:
            return KEYWORDS[name](keywords)
        kind, colon, encoder = name.partition(":")
        if colon and kind in OVER_ENCODERS:
            return self._over(kind, encoder)
        if is_library(name):
            return self._over("sim", name)
        _check_bare(name)
        try:
            ranker: Ranker = self._load(name)
        except bundled.UnknownModelError:
            raise bundled.unknown(name, bundled.RANKERS) from None
        return ranker

    def _over(self, kind: str, name: str) -> Ranker:
        ranker: Ranker = (
            self._texts(name).with_history() if kind == "sim-history" else self.encoder(name)
        )
        return ranker

    def encoder(self, name: str) -> Any:
        """Return an encoder of contexts and responses, with a cache."""
        folder, mark, vectors = name.rpartition("#")
        if mark and vectors not in ("h", "r"):
            raise InputError(f"{name}: a model has {folder}#h and {folder}#r, no #{vectors}")
        return (
            self._texts(name) if mark and vectors == "r" else self._model(folder if mark else name)
        )

    def _texts(self, name: str) -> Any:
        """Return an encoder of single texts, with a cache."""
        if is_library(name):
            return self._model(name)
        folder, mark, vectors = name.rpartition("#")
        key = f"{name} of single texts"
        if key not in self._cached:
            model = self._model(folder if mark else name)
            self._cached[key] = as_texts(model, vectors if mark else "h")
        return self._cached[key]

    def _model(self, name: str) -> Any:
        if name not in self._cached:
            model = self._load(name)
            if not is_library(name):
                model = _of_texts(model)
            self._cached[name] = model.with_cache()
        return self._cached[name]

    def _load(self, name: str) -> Any:
        model = track_truncation(load(name, device=self._device))
        self.opened.append(model)
        return model


def _check_bare(name: str) -> None:
    """Refuse FOLDER#r, which is an encoder alone, as a ranker."""
    folder, mark, vectors = name.rpartition("#")
    if mark and not Path(name).exists() and (Path(folder).is_dir() or bundled.is_name(folder)):
        raise InputError(
            f"{name}: #{vectors} chooses an encoder's vectors, which need a form before it;"
            f" name sim:{name} or map:{name}, or {folder} alone"
        )


def is_library(name: str | Path) -> bool:
    """Return whether this names an encoder of another library (see the table above)."""
    return is_library_name(str(name)) or is_sentence_transformer(Path(name))


def is_library_name(name: str) -> bool:
    """Return whether this is the name of an encoder of another library, and no folder's."""
    return name in LIBRARY_NAMES or name.startswith(LIBRARY_PREFIX)


def reads_english_only(name: str) -> bool:
    """Return whether a model of this name is known to read no other language than English."""
    return name == "minilm" or bundled.is_name(name)


def is_sentence_transformer(folder: Path) -> bool:
    """Return whether sentence-transformers wrote a folder, and not `rejoinder export`."""
    ours = all((folder / file).is_file() for file in ("config.json", "vocabulary.json"))
    return (folder / MODULES).is_file() and not ours


def _open_library(
    name: str, precision: str, device: str, engine: EngineName = "auto"
) -> SentenceEncoder:
    from rejoinder.encoders import sentence

    own = "auto" if name in MULTILINGUAL else "torch"
    if engine not in ("auto", own):
        raise InputError(f"{name} is not computed by engine {engine}; take engine {own}")
    if name == "minilm":
        return sentence.open_minilm(precision, device)
    if name in MULTILINGUAL:
        from rejoinder.encoders import multilingual

        return multilingual.open_use() if name == "use" else multilingual.open_e5()
    folder = name.removeprefix(LIBRARY_PREFIX)
    return sentence.open_sentence_transformer(folder, name, precision, device)


def identity(name: str) -> str:
    """Return a name with the fingerprint of its folder, or with our version."""
    from rejoinder import __version__

    kind, colon, location = name.rpartition(":")
    folder, mark, output = location.partition("#")
    has_folder = Path(folder).is_dir() or bundled.is_name(folder)
    if not has_folder and ("/" not in folder or kind.endswith("st")):
        return f"{name} of rejoinder {__version__}"
    return f"{kind}{colon}{_contents(folder)}{mark}{output}"


def _contents(name: str) -> str:
    """Return the fingerprint of a model folder, or a digest of all files of another folder."""
    from rejoinder.encoders.folders import VOCABULARY, find, fingerprint, read_folder

    folder = Path(name)
    if not folder.is_dir() or (folder / VOCABULARY).is_file():
        return fingerprint(read_folder(find(name)))
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    digests = [(str(file.relative_to(folder)), file_digest(file)) for file in files]
    return hashlib.sha256(repr(digests).encode()).hexdigest()
