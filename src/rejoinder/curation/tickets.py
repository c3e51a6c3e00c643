"""Requests that an index's log remembers for a day, so that none is carried out twice."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from rejoinder.errors import BusyError, InputError
from rejoinder.stores.log import request_table
from rejoinder.stores.log.database import Connection, LogDatabase

KEPT = 86_400.0  # seconds for which a request is remembered


class Ticket(NamedTuple):
    """A request by its key, and a digest of all that it asks.

    A server's own key, which nobody can give again, goes with an empty digest.
    """

    key: str
    digest: str


class ReusedKeyError(InputError):
    """A key that was given with another request."""


def remember(
    connection: Connection, ticket: Ticket, result: Mapping[str, Any], token: str = ""
) -> None:
    """Write down what a request has led to; it counts if the manifest has the `token`.

    Raises:
        BusyError: another process has done so since it was looked for.
    """
    now = time.time()
    if not request_table.insert(
        connection, ticket.key, ticket.digest, result, token, time=now, expired=now - KEPT
    ):
        raise BusyError("the same request was carried out by another process just now; try again")


def recall(log: LogDatabase, ticket: Ticket, token: str = "") -> dict[str, Any] | None:
    """Return what a request has led to; None: it was not carried out.

    `token` is that of the index's manifest.

    Raises:
        ReusedKeyError: the key was given with another request.
    """
    row = request_table.find(log, ticket.key, time.time() - KEPT, token)
    if row is None:
        return None
    digest, result = row
    if digest != ticket.digest:
        raise ReusedKeyError(
            "this idempotency key was given with another request; take a new one for each request"
        )
    return result


def forget(log: LogDatabase, ticket: Ticket) -> None:
    """Let a request be carried out again."""
    with log.writing() as connection:
        request_table.delete(connection, ticket.key)
