"""What Milvus holds of a reply: its row, its vectors, and tokens of its fields for conditions."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError
from rejoinder.stores.segments import Line, value_texts

LONGEST = 65_535  # bytes of a reply with its payload
MOST_TOKENS = 4096  # of a reply's fields and values
TOKEN_BYTES = 32
_decode = msgspec.json.Decoder(Line).decode


def stored_row(row: int, line: bytes) -> dict[str, Any]:
    """Return a reply as it is stored, without its vectors; one too large is an InputError."""
    payload = _decode(line).payload
    tokens = {token_of(name) for name in payload}
    tokens |= {
        token_of(name, text) for name, value in payload.items() for text in value_texts(value)
    }
    if len(line) > LONGEST or len(tokens) > MOST_TOKENS:
        raise InputError(
            f"a reply has {len(line):,} bytes with its payload, and {len(tokens):,} fields and "
            f"values; Milvus holds {LONGEST:,} bytes, and {MOST_TOKENS:,} of those: "
            f"{line[:60].decode(errors='replace')}"
        )
    return {"row": row, "line": line.decode(), "fields": sorted(tokens)}


def condition(tokens: Sequence[str]) -> str:
    """Return the condition that one of the tokens is there; of no tokens, none is."""
    return f"array_contains_any(fields, {json.dumps(tokens or ['-'])})"


def token_of(*name_and_text: str) -> str:
    """Return hexadecimal digits that stand for a field, or for its value, in a condition."""
    content = json.dumps(name_and_text).encode()
    return hashlib.blake2b(content, digest_size=TOKEN_BYTES // 2).hexdigest()


def vector_to_text(vector: FloatArray) -> str:
    """Return a vector by which nothing is searched as text."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")


def vector_of_text(text: str) -> FloatArray:
    """Return the vector of a text of `vector_to_text`."""
    return np.frombuffer(base64.b64decode(text), "<f4")
