"""The keys of a server, which say who may read and who may change."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass

from rejoinder.errors import InputError

READ_KEY = "REJOINDER_READ_KEY"
WRITE_KEY = "REJOINDER_WRITE_KEY"
SHORTEST_KEY = 16  # characters


@dataclass(frozen=True)
class Keys:
    """Permissions of keys: a read key queries, a write key also changes.

    Without any key everybody may do everything.
    """

    read: bytes | None = None
    write: bytes | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Keys:
        """Read the keys; one that is easy to guess is an InputError."""
        return cls(read=_key(environment, READ_KEY), write=_key(environment, WRITE_KEY))

    def __bool__(self) -> bool:
        return bool(self.read or self.write)

    def may_write(self, authorization: bytes) -> bool:
        """Return whether a header has the write key, or there is none to have."""
        return self.refusal(authorization, write=True) is None

    def refusal(self, authorization: bytes, *, write: bool) -> tuple[int, str] | None:
        """Return status and message for who may not do it."""
        if not self:
            return None
        scheme, _, credentials = authorization.partition(b" ")
        key = credentials.strip(b" ") if scheme.lower() == b"bearer" else b""
        # Both comparisons are always made, in a time that does not depend on where the keys differ.
        writes = hmac.compare_digest(key, self.write or os.urandom(32))
        reads = hmac.compare_digest(key, self.read or os.urandom(32))
        if writes or (reads and not write):
            return None
        if reads:
            return 403, f"this key may only read; use the one of {WRITE_KEY}"
        return 401, "send a valid key in the header: Authorization: Bearer KEY"


def _key(environment: Mapping[str, str], name: str) -> bytes | None:
    key = environment.get(name)
    if key is None:
        return None
    if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable():
        raise InputError(
            f"{name} needs {SHORTEST_KEY} printable ASCII characters or more;"
            " make one with: openssl rand -hex 32"
        )
    return key.encode()


NO_KEYS = Keys()
