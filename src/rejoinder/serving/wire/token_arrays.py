"""Token arrays in place of texts, as langchain-openai sends them unless it is told otherwise.

They are decoded with tiktoken, if that is installed and its vocabulary is on this machine: it would
fetch it over the network otherwise, and a server calls nobody.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError

ENCODING = "cl100k_base"  # which clients take for a model that they do not know
_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"  # as tiktoken names it in its cache
_ADVICE = (
    "input holds tokens, not texts. Send texts: langchain-openai with "
    "check_embedding_ctx_length=False, other clients with their switch for it. To have tokens of "
    f"{ENCODING} decoded, install the extra tokens (tiktoken) and name the folder with its "
    "vocabulary by TIKTOKEN_CACHE_DIR"
)


def is_token_array(value: object) -> bool:
    """Return whether a value is tokens: whole numbers, or lists of them."""
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(row, list) for row in value):
        return all(row and all(map(_is_token, row)) for row in value)
    return all(map(_is_token, value))


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def decode_tokens(value: list[Any]) -> list[str]:
    """Return the texts of token arrays.

    Raises:
        InputError: they cannot be decoded here, or are not tokens of the encoding.
    """
    rows = value if isinstance(value[0], list) else [value]
    encoding = _encoding()
    try:
        return [encoding.decode(row) for row in rows]
    except (KeyError, OverflowError, ValueError):
        raise InputError(f"input holds tokens that {ENCODING} has not; {_ADVICE}") from None


def _encoding() -> Any:
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    if not folder or not (Path(folder) / _FILE).is_file():
        raise InputError(_ADVICE)
    try:
        import tiktoken
    except ImportError:
        raise InputError(_ADVICE) from None
    return tiktoken.get_encoding(ENCODING)
