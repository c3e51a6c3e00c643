"""Digests: content is known by its SHA-256."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DIGEST = "sha256"  # key under which JSON content holds its own digest


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def signed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON content with a digest of all of it; see `is_altered`."""
    plain = {key: value for key, value in content.items() if key != DIGEST}
    return {**plain, DIGEST: hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()}


def is_altered(content: Mapping[str, Any]) -> bool:
    """Return whether content that was `signed` has changed, or its digest is gone."""
    return content.get(DIGEST) != signed(content)[DIGEST]


def content_key(*parts: object) -> str:
    """Return a short name for content that depends on nothing but the parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


def joined_digest(digests: Sequence[str]) -> str:
    """Return one digest of several; of one, that one."""
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()
    )
