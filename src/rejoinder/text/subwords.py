"""Subwords: text to ids and back, as ConveRT does it (Henderson et al. 2020, section 3.1).

Before every token stands the start mark U+FE4F; a token is then cut into subwords by greedy
longest prefix match. The mark is a separator character, which makes the code invertible without
any escape (see `decode`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern
from rejoinder.text.characters import SEPARATOR, WORD
from rejoinder.text.tokenizer import Cut, Ids, check_cut, check_texts
from rejoinder.text.tokens import lower, token_starts, tokens
from rejoinder.text.vocabulary import IdCache, Vocabulary

MARK = "\ufe4f"  # Stands before every token. A subword that begins with it begins a token.
UNKNOWN = "\ufffd"  # what `Subwords.decode` writes for a character that is in no subword
KNOWN_TOKENS = 2**16  # tokens whose ids are kept: some 30 MB at most
_SPACE_BETWEEN_WORDS = search_pattern(f"(?<={WORD}){MARK}(?={WORD})")
_START_OF_TOKEN = search_pattern(f"(?<!{SEPARATOR}){MARK}|{MARK}(?={WORD})")


class Subwords(Vocabulary):
    """A vocabulary of subwords.

    Those that begin a token begin with `MARK`, which alone must be one of them. Ids are, in this
    order: the subwords; `buckets` ids that characters in no subword share; `padding_id`.
    """

    FORMAT = "rejoinder subwords 1"
    INDENT = 0  # one subword a line

    unit = "subwords"

    def __init__(self, subwords: Sequence[str], buckets: int = 1000, cut: Cut = "end") -> None:
        _check_subwords(subwords, buckets)
        self.cut = cut
        self.subwords = tuple(subwords)
        self.size = len(self.subwords)
        self.buckets = buckets
        self.padding_id = self.size + buckets
        self.rows = self.padding_id + 1
        self._ids = {subword: number for number, subword in enumerate(self.subwords)}
        self._longest = max(map(len, self.subwords))
        # Length of the longest subword with those first two characters: no longer prefix needs a
        # try.
        self._reach: dict[str, int] = {}
        for subword in self.subwords:
            self._reach[subword[:2]] = max(self._reach.get(subword[:2], 0), len(subword))
        self._known = IdCache(self._encode_token, KNOWN_TOKENS)

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """Return all ids (T,), and the number of ids of each text (n,), both int32.

        See `Tokenizer.encode_ragged`.
        """
        check_texts(texts, max_length)
        if max_length is None:
            rows = [self._encode_bytes(text) for text in texts]
        else:
            # An id stands for at most `_longest` characters and one space that disappeared. What
            # follows the first `enough` characters cannot change the first `max_length` ids: a text
            # of a million characters is cheap.
            enough = (max_length + 1) * (self._longest + 1) + 2
            rows = [self._encode_bytes(text[:enough])[: 4 * max_length] for text in texts]
        lengths = np.fromiter(map(len, rows), np.int32, len(rows)) // 4
        return np.frombuffer(bytearray().join(rows), np.int32), lengths

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, without padding.

        A to Z are in lower case, characters in no subword U+FFFD.
        """
        marked = "".join(map(self._text_of, ids))
        # A token's start mark follows a word character or nothing, or it precedes a word character
        # (a separator token never touches another one). Any other mark belongs to a separator
        # token.
        return _START_OF_TOKEN.sub("", _SPACE_BETWEEN_WORDS.sub(" ", marked))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the start and the end in `text` of what each id of `encode(text)` stands for.

        They count characters. They ascend without overlap. A start mark that is an id of its own
        has an empty span at the start of its token; a single space between two words is in no span.
        """
        spans = []
        for start, token in token_starts(lower(text)):
            position = start - len(MARK)  # as if the mark stood in the text
            for _, length in self._match(MARK + token):
                end = position + length
                spans.append((max(position, start), end))
                position = end
        return spans

    def to_json(self) -> dict[str, Any]:
        """See `Vocabulary.to_json`."""
        cut = {} if self.cut == "end" else {"cut": self.cut}
        return {
            "format": self.FORMAT,
            "buckets": self.buckets,
            **cut,
            "subwords": list(self.subwords),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Subwords:
        """See `Vocabulary.from_json`."""
        buckets = data.get("buckets")
        subwords = data.get("subwords")
        cut = data.get("cut", "end")
        if type(buckets) is not int:
            raise InputError(f"'buckets' must be a whole number, not {buckets!r}")
        if not isinstance(subwords, list) or not all(
            isinstance(subword, str) for subword in subwords
        ):
            raise InputError("'subwords' must be a list of strings")
        return cls(subwords, buckets, check_cut(cut))

    def __reduce__(self) -> tuple[Callable[..., Subwords], tuple[tuple[str, ...], int, Cut]]:
        # Not the cache, which other processes fill.
        return Subwords, (self.subwords, self.buckets, self.cut)

    def _encode_bytes(self, text: str) -> bytes:
        """Return the ids of one text as int32 in memory, without Python work per id."""
        return b"".join(map(self._known.__getitem__, tokens(lower(text))))

    def _encode_token(self, token: str) -> bytes:
        return np.fromiter((number for number, _ in self._match(MARK + token)), np.int32).tobytes()

    def _match(self, marked: str) -> Iterator[tuple[int, int]]:
        """Yield the id of each subword of a marked token, and its number of characters."""
        start = 0
        end = len(marked)
        while start < end:
            stop = min(end, start + self._reach.get(marked[start : start + 2], 1))
            while stop > start and marked[start:stop] not in self._ids:
                stop -= 1
            if stop > start:
                yield self._ids[marked[start:stop]], stop - start
                start = stop
            else:
                # CRC-32 is the same in every process and on every platform; Python's hash() is not.
                bucket = zlib.crc32(marked[start].encode("utf-8", "surrogatepass")) % self.buckets
                yield self.size + bucket, 1
                start += 1

    def _text_of(self, number: int) -> str:
        if not 0 <= number < self.rows:
            raise InputError(f"id {number} is not in 0 to {self.rows - 1}")
        if number < self.size:
            return self.subwords[number]
        return "" if number == self.padding_id else UNKNOWN


def _check_subwords(subwords: Sequence[str], buckets: int) -> None:
    if buckets < 1:
        raise InputError(
            f"buckets is {buckets}; at least 1 is needed for characters outside the vocabulary"
        )
    seen: set[str] = set()
    for number, subword in enumerate(subwords):
        if not subword or any("\ud800" <= character <= "\udfff" for character in subword):
            raise InputError(
                f"subword {number}, {subword!r}, is empty or cannot be written as UTF-8"
            )
        if subword in seen:
            raise InputError(f"subword {number}, {subword!r}, is there twice")
        seen.add(subword)
    if MARK not in seen:
        raise InputError(
            f"the start mark U+{ord(MARK):04X} is not among the subwords; it must be one of them"
        )
