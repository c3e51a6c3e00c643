"""Signatures of webhooks."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping

AGE = 300.0  # seconds for which a signature is valid


def sign(secret: str, stamp: str, body: bytes) -> str:
    """Return the signature of a body that is sent at a time: HMAC-SHA256 of "time.body"."""
    digest = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


def is_signed(secret: str, prefix: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether a body has a valid signature of the last `AGE` seconds."""
    stamp = headers.get(f"{prefix}-timestamp", "")
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) < 12):
        return False
    if abs(time.time() - int(stamp)) > AGE:
        return False
    known = sign(secret, stamp, body).encode()
    return hmac.compare_digest(known, headers.get(f"{prefix}-signature", "").encode())
