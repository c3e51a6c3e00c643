"""Tokenizers of the `tokenizers` library, of BERT-like weights and new byte pair ones."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.json_parsing import parse_json
from rejoinder.text.known_texts import KnownWords
from rejoinder.text.tokenizer import Cut, Ids, check_cut

KIND = "tokenizers"


@dataclass(frozen=True, slots=True)
class Special:
    """Roles of tokens.

    `turn` stands between two messages, `mask` for a token that is to be guessed.
    """

    padding: str
    start: str
    end: str
    turn: str
    mask: str


BERT = Special("[PAD]", "[CLS]", "[SEP]", "[SEP]", "[MASK]")  # BERT has no token for a new line
MPNET = Special("<pad>", "<s>", "</s>", "</s>", "<mask>")
_READS_WORDS = {
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
    "model": "WordPiece",
}
"""Parts of a tokenizer that reads each word by itself."""
MARKS = Special("[PAD]", "[S]", "[S]", "[NEWLINE]", "[MASK]")  # POLY's, of `build_bpe`


class Pretrained:
    """A tokenizer of the `tokenizers` library (fulfils `text.tokenizer.Tokenizer`).

    Tokens that play a part are never made from text: "[SEP]" in a message is brackets and letters.
    `description` is the library's JSON, as in tokenizer.json; `rows` counts where a checkpoint's
    token table has more than its vocabulary.
    """

    unit = "tokens"

    def __init__(
        self, description: Mapping[str, Any], special: Special, rows: int = 0, cut: Cut = "end"
    ) -> None:
        # neither of which subwords need
        import msgspec
        import tokenizers

        # Texts are cut and padded elsewhere, so what these are set to has no part in the
        # fingerprint.
        self.description: Mapping[str, Any] = {**description, "truncation": None, "padding": None}
        try:
            content = msgspec.json.encode(self.description)  # ten times as fast as json
            self._tokenizer: Any = tokenizers.Tokenizer.from_buffer(content)
        except Exception as error:  # noqa: BLE001 (the library raises nothing more specific)
            raise InputError(f"no tokenizer that the tokenizers library reads: {error}") from None
        self._tokenizer.encode_special_tokens = True
        self._words: KnownWords | None = None
        self.special = special
        self.cut = check_cut(cut)
        ids: dict[str, int] = {}
        for part, token in asdict(special).items():
            number: int | None = self._tokenizer.token_to_id(token)
            if number is None:
                raise InputError(f"the tokenizer has no token {token!r} ({part})")
            ids[part] = number
        self.padding_id = ids["padding"]
        self.start_id = ids["start"]
        self.end_id = ids["end"]
        self.turn_id = ids["turn"]
        self.mask_id = ids["mask"]
        self.special_ids = frozenset(ids.values())
        self.rows = max(rows, self._tokenizer.get_vocab_size(with_added_tokens=True))

    def __reduce__(self) -> tuple[type[Pretrained], tuple[Mapping[str, Any], Special, int, Cut]]:
        # The library's own copy would forget that special tokens are never made from text.
        return type(self), (self.description, self.special, self.rows, self.cut)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        try:
            content = parse_json(Path(path).read_text(encoding="utf-8"))
            if content.get("kind") != KIND:
                raise ValueError(f"kind {content.get('kind')!r} instead of {KIND!r}")
            special = Special(**content["special"])
            return cls(content["tokenizer"], special, content["rows"], content.get("cut", "end"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}: not a whole vocabulary ({error}); copy the model folder again"
            ) from None

    @property
    def fingerprint(self) -> str:
        """SHA-256: two tokenizers with the same one give the same ids."""
        return hashlib.sha256(self._json().encode()).hexdigest()

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """See `Tokenizer.encode_ragged`; no special tokens.

        Half a surrogate pair is read as a question mark.
        """
        read = self._read if self._words is None else self._words.read
        return read(texts, max_length)

    def _read(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        try:
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        except (UnicodeEncodeError, TypeError):
            whole = [text.encode("utf-8", "replace").decode() for text in texts]
            encodings = self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)
        pieces = [encoding.ids[:max_length] for encoding in encodings]
        lengths = np.fromiter(map(len, pieces), dtype=np.int32, count=len(pieces))
        flat = itertools.chain.from_iterable(pieces)
        ids = np.fromiter(flat, dtype=np.int32, count=int(lengths.sum()))
        return ids, lengths

    def remembering(self) -> Self:
        """Return a tokenizer that reads each word once, where words are read one by one.

        BERT's are: nothing of it sees beyond a space. Any other is returned as it is.
        """
        kinds = [(self.description.get(part) or {}).get("type") for part in _READS_WORDS]
        added = [token["content"] for token in self.description.get("added_tokens", ())]
        if kinds != list(_READS_WORDS.values()) or any(" " in token for token in added):
            return self
        remembering = copy.copy(self)
        remembering._words = KnownWords(self._read)
        return remembering

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file, whole or not at all."""
        with atomic_file(Path(path)) as part:
            part.write_text(self._json(), encoding="utf-8")

    def _json(self) -> str:
        content = {
            "kind": KIND,
            "special": asdict(self.special),
            "rows": self.rows,
            "tokenizer": self.description,
        }
        content |= {} if self.cut == "end" else {"cut": self.cut}
        return json.dumps(content, ensure_ascii=False) + "\n"


class MarkedPretrained(Pretrained):
    """The same, with the start before and the end after every text that has tokens."""

    @property
    def fingerprint(self) -> str:
        """SHA-256: two tokenizers with the same one give the same ids."""
        return hashlib.sha256(f"marked {super().fingerprint}".encode()).hexdigest()

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """See `Pretrained.encode_ragged`; the two marks count as tokens."""
        ids, lengths = super().encode_ragged(
            texts, None if max_length is None else max(max_length - 2, 1)
        )
        ends = np.cumsum(lengths, dtype=np.int64)[lengths > 0]
        marks = np.tile(np.array([self.start_id, self.end_id], np.int32), len(ends))
        starts = ends - lengths[lengths > 0]
        marked = np.insert(ids, np.stack([starts, ends], axis=1).ravel(), marks)
        return marked, (lengths + 2 * (lengths > 0)).astype(np.int32)


def build_bpe(texts: Iterable[str], merges: int = 30_000, minimum_count: int = 2) -> Pretrained:
    """Learn byte pair encoding from texts, for pretraining from scratch (POLY, section 4.1).

    Merges are over the bytes of the lower-cased text, so that no character is unknown.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    special = list(dict.fromkeys((MARKS.padding, MARKS.start, MARKS.turn, MARKS.mask)))
    trainer = trainers.BpeTrainer(
        vocab_size=len(special) + 256 + merges,
        min_frequency=minimum_count,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = iter(texts)
    first = next(texts, None)
    if first is None:
        raise InputError("no text to build a vocabulary from")
    tokenizer.train_from_iterator(itertools.chain([first], texts), trainer)
    return Pretrained(json.loads(tokenizer.to_str()), MARKS)
