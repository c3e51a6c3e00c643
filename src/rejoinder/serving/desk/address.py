"""The address of a desk, to which notes are sent: again after some errors, and not for ever."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
import urllib.parse
from collections.abc import Mapping

from rejoinder.errors import InputError, RejoinderError

SECONDS = 10.0  # for a note: all attempts, each from the connection to the last byte of the answer

PAUSES = (0.5, 2.0)  # seconds before each further attempt

ANSWER_BYTES = 64 << 10

_AGAIN = frozenset((429, 503))  # a proxy sends 502 and 504 also where the desk has the note


class NoteError(RejoinderError):
    """The desk did not take a note."""


class Address:
    """The one address that notes go to: no redirect, no proxy, bounded in time and size.

    Raises:
        InputError: it is not an address of HTTP.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            parts = urllib.parse.urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            str(parts.hostname).encode("idna")
        except ValueError:  # its port, its IPv6 address or its name is none
            usable = False
        if not usable or parts.username:
            raise InputError(
                f"{url!r} is not an address of a desk; write it as https://desk.example.com"
            )
        if parts.query or parts.fragment:
            raise InputError(f"{url!r}: leave out what follows ? or #")
        if " " in url or not url.isprintable() or not parts.path.isascii():
            raise InputError(
                f"{url!r} has a blank, or a letter in its path that is not ASCII; write it as %20"
            )
        self._parts = parts

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send JSON; try again what the desk has not taken. NoteError: it does not take it."""
        end = time.monotonic() + SECONDS
        for pause in (*PAUSES, None):
            try:
                self._post_once(path, body, headers, end)
            except _RetryError as error:
                if pause is None or time.monotonic() + pause > end:
                    raise NoteError(str(error)) from None
                time.sleep(pause)
            else:
                return

    def _post_once(self, path: str, body: bytes, headers: Mapping[str, str], end: float) -> None:
        """Post a body; the whole exchange ends at `end`."""
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        port = self._parts.port or kind.default_port
        left = max(0.01, end - time.monotonic())
        connection = kind(str(self._parts.hostname), port, timeout=left)
        headers = {"content-type": "application/json", **headers}
        # the time-out of a socket begins again with every byte that comes
        alarm = threading.Timer(left, _hang_up, (connection,))
        alarm.daemon = True
        alarm.start()
        with contextlib.closing(connection), contextlib.ExitStack() as stack:
            stack.callback(alarm.cancel)
            try:
                connection.request("POST", self._parts.path + path or "/", body, headers)
            except TimeoutError as error:
                raise NoteError(f"{self.url} cannot be reached: {error}") from None
            except OSError as error:  # no connection, or lost while sending: the desk has no note
                raise _RetryError(f"{self.url} cannot be reached: {error}") from None
            try:
                answer = connection.getresponse()
                answer.read(ANSWER_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise NoteError(f"{self.url} has not answered: {error!r}") from None
        if answer.status in _AGAIN:
            raise _RetryError(f"{self.url} answered {answer.status}")
        if answer.status >= 300:
            raise NoteError(f"{self.url} answered {answer.status}")


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """End an exchange: whoever reads gets to the end of the answer at once."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


class _RetryError(NoteError):
    """Another attempt may succeed, and makes no second note."""
