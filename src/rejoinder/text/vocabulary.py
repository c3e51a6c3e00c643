"""A vocabulary in a JSON file, and its way from text to ids."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.text.tokenizer import Cut, Ids


class Vocabulary(ABC):
    """A vocabulary that is a JSON object with a `format`, and its way from text to ids."""

    FORMAT: ClassVar[str]
    INDENT: ClassVar[int | None] = None
    cut: Cut = "end"
    unit: str = "words"

    @abstractmethod
    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """See `Tokenizer.encode_ragged`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return everything that makes this vocabulary, as plain JSON values."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: Any) -> Self:
        """Make a vocabulary of what `to_json` returned; anything else is an InputError."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of one text."""
        ids: list[int] = self.encode_ragged([text])[0].tolist()
        return ids

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON, whole or not at all."""
        content = json.dumps(self.to_json(), ensure_ascii=False, indent=self.INDENT)
        with atomic_file(path) as part:
            part.write_text(content + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; anything else is an InputError."""
        try:
            data = json.loads(Path(path).read_bytes().decode("utf-8"))
            if not isinstance(data, dict) or data.get("format") != cls.FORMAT:
                raise InputError(
                    f"not a vocabulary: an object with format '{cls.FORMAT}' is needed"
                )
            return cls.from_json(data)
        except OSError as error:
            raise InputError(f"{path}: cannot read the vocabulary: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}: not a vocabulary, since not JSON in UTF-8: {error}"
            ) from error
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that makes the vocabulary, in hexadecimal."""
        content = json.dumps(
            self.to_json(), ensure_ascii=True, sort_keys=True, separators=(",", ":")
        )
        return hashlib.sha256(content.encode("ascii")).hexdigest()


class IdCache(dict[str, bytes]):
    """Ids, int32 in memory, of at most `entries` short pieces of text seen lately.

    `encode` makes what is missing.
    """

    LONGEST = 32

    def __init__(self, encode: Callable[[str], bytes], entries: int) -> None:
        super().__init__()
        self._encode = encode
        self._entries = entries

    def __missing__(self, piece: str) -> bytes:
        ids = self._encode(piece)
        if len(piece) <= self.LONGEST:
            if len(self) >= self._entries:
                # the frequent pieces are back soon; ranking them would cost every look-up
                self.clear()
            self[piece] = ids
        return ids
