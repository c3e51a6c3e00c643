"""Tokenisers of the `tokenizers` library: those that come with BERT-like weights, and our own BPE (see `bpe`).

They are kept as one JSON file: the library's own description, and which tokens play which part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import atomic_file, parse_json
from rejoinder.text.tokenizer import Ids

KIND = "tokenizers"


@dataclass(frozen=True, slots=True)
class Special:
    """Which tokens play which part.

    Attributes:
        padding: stands where there is no token.
        start: before every context and every response.
        end: after them.
        turn: between two messages of a context.
        mask: in place of a token that is to be guessed.
    """

    padding: str
    start: str
    end: str
    turn: str
    mask: str


BERT = Special("[PAD]", "[CLS]", "[SEP]", "[SEP]", "[MASK]")
"""Of BERT's vocabulary. It has no token for a new line; its separator is the token that it knows between texts."""


class Pretrained:
    """A tokeniser of the `tokenizers` library (fulfils `tokenizer.Tokenizer`).

    Tokens that play a part are never made from text: a message that says "[SEP]" is read as brackets and letters.

    Args:
        description: the library's JSON, tokenizer.json of a checkpoint say.
        special: which tokens play which part.
        rows: rows of the embedding table, where a checkpoint has more than its vocabulary.

    Raises:
        MissingExtraError: the library is not installed.
        InputError: it is no such description, or has not all the special tokens.
    """

    def __init__(self, description: Mapping[str, Any], special: Special, rows: int = 0) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise MissingExtraError("this model's tokeniser", "bert") from None
        # Cutting and padding are ours, and what they are set to has no part in the fingerprint.
        self._description = {**description, "truncation": None, "padding": None}
        try:
            self._tokenizer: Any = Tokenizer.from_str(json.dumps(self._description))
        except Exception as error:  # noqa: BLE001 (the library raises nothing more specific)
            raise InputError(f"no tokeniser that the tokenizers library reads: {error}") from None
        self._tokenizer.encode_special_tokens = True
        self.special = special
        self._ids: dict[str, int] = {}
        for part, token in asdict(special).items():
            number: int | None = self._tokenizer.token_to_id(token)
            if number is None:
                raise InputError(f"the tokeniser has no token {token!r} ({part})")
            self._ids[part] = number
        self.rows = max(rows, self._tokenizer.get_vocab_size(with_added_tokens=True))

    def __reduce__(self) -> tuple[type[Pretrained], tuple[Mapping[str, Any], Special, int]]:
        # The library's own copy would forget that special tokens are never made from text.
        return type(self), (self._description, self.special, self.rows)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote.

        Raises:
            InputError: it is not whole.
        """
        try:
            content = parse_json(Path(path).read_text(encoding="utf-8"))
            if content.get("kind") != KIND:
                raise ValueError(f"kind {content.get('kind')!r} instead of {KIND!r}")
            return cls(content["tokenizer"], Special(**content["special"]), content["rows"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: not a whole vocabulary ({error}); copy the model folder again") from None

    @property
    def padding_id(self) -> int:
        """The id that stands where there is no token."""
        return self._ids["padding"]

    @property
    def start_id(self) -> int:
        """The id before every context and response."""
        return self._ids["start"]

    @property
    def end_id(self) -> int:
        """The id after every context and response."""
        return self._ids["end"]

    @property
    def turn_id(self) -> int:
        """The id between two messages."""
        return self._ids["turn"]

    @property
    def mask_id(self) -> int:
        """The id in place of a token that is to be guessed."""
        return self._ids["mask"]

    @property
    def special_ids(self) -> frozenset[int]:
        """All ids that play a part."""
        return frozenset(self._ids.values())

    @property
    def description(self) -> Mapping[str, Any]:
        """The library's JSON."""
        return self._description

    @property
    def fingerprint(self) -> str:
        """SHA-256: two tokenisers with the same one give the same ids."""
        return hashlib.sha256(self._json().encode()).hexdigest()

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """All ids one after the other and the number of ids of each text, without special tokens.

        Args:
            texts: any texts; half a surrogate pair is read as a question mark.
            max_length: tokens that are kept of each text, the first ones; None for all.
        """
        try:
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        except (UnicodeEncodeError, TypeError):
            whole = [text.encode("utf-8", "replace").decode() for text in texts]
            encodings = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        pieces = [encoding.ids[:max_length] for encoding in encodings]
        lengths = np.fromiter(map(len, pieces), dtype=np.int32, count=len(pieces))
        ids = np.fromiter((each for piece in pieces for each in piece), dtype=np.int32, count=int(lengths.sum()))
        return ids, lengths

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file, whole or not at all."""
        with atomic_file(Path(path)) as part:
            part.write_text(self._json(), encoding="utf-8")

    def _json(self) -> str:
        content = {"kind": KIND, "special": asdict(self.special), "rows": self.rows, "tokenizer": self._description}
        return json.dumps(content, ensure_ascii=False) + "\n"


class MarkedPretrained(Pretrained):
    """The same, with the start before and the end after every text, for models that read each message by itself.

    A text without tokens stays empty.
    """

    @property
    def fingerprint(self) -> str:
        """SHA-256: two tokenisers with the same one give the same ids."""
        return hashlib.sha256(f"marked {super().fingerprint}".encode()).hexdigest()

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """See `Pretrained.encode_ragged`; the two marks count as tokens."""
        ids, lengths = super().encode_ragged(texts, None if max_length is None else max(max_length - 2, 1))
        whole = lengths + 2 * (lengths > 0).astype(np.int32)
        ends = np.cumsum(whole, dtype=np.int64)[whole > 0]
        marked = np.empty(int(whole.sum()), np.int32)
        inside = np.ones(len(marked), dtype=bool)
        inside[ends - whole[whole > 0]] = inside[ends - 1] = False
        marked[inside] = ids
        marked[ends - whole[whole > 0]], marked[ends - 1] = self.start_id, self.end_id
        return marked, whole
