"""Which processes of a job are still there, and why one is not.

A process that dies takes its connections with it, and the others' next exchange fails, with no word about whose
fault it was. So each process tells the job's key-value store once a second that it lives, and one that ends on
purpose says why. (The store is kept by torchrun, or by the first process.)
"""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

# There is no public way to the job's store.
from torch.distributed.distributed_c10d import PrefixStore, Store, _get_default_store

from rejoinder.errors import InputError, RejoinderError

BEAT = 1.0
"""Seconds from one sign of life to the next."""

SILENCE = 120.0
"""Seconds without one after which a process that others wait for is given up; long work may keep Python busy."""

_runs = itertools.count()


class PeerLostError(RejoinderError):
    """An exchange between the processes failed."""


class ElsewhereError(RejoinderError):
    """Another process ended the job and has said why.

    Attributes:
        code: exit code of a command, as for the other process's error.
    """

    def __init__(self, message: str, error: BaseException | None = None, code: int = 1) -> None:
        super().__init__(message)
        self.code = code if error is None else _exit_code(error)


class Farewell(NamedTuple):
    """What a process says when it ends.

    Attributes:
        message: of its error.
        code: exit code of a command for that error.
        lost: whether it ends because another one is gone.
    """

    message: str
    code: int
    lost: bool


class Presence:
    """This process's sign of life, and a look at the others'.

    Args:
        rank: number of this process.
        count: how many there are.
        store: where they leave word; by default the job's.
    """

    def __init__(self, rank: int, count: int, store: Store | None = None) -> None:
        self.rank, self.count = rank, count
        # All processes train the same runs in the same order, so they count alike.
        self._store = store or PrefixStore(f"rejoinder/{next(_runs)}", _get_default_store())
        self._ended = threading.Event()
        self._store.set(f"beat/{rank}", "0")
        self._heart = threading.Thread(target=self._beat, name="presence", daemon=True)
        self._heart.start()

    def close(self) -> None:
        """Stop giving signs of life."""
        self._ended.set()
        self._heart.join()

    def announce(self, key: str) -> None:
        """Let `wait_for_first` of that key return in the other processes."""
        self._store.set(key, "done")

    def wait_for_first(self, key: str) -> None:
        """Wait, however long it takes, until the first process announces the key.

        Raises:
            ElsewhereError: it ended with an error instead.
            PeerLostError: it is gone.
        """
        beat, heard = "", time.monotonic()
        pause = 0.01
        while not self._has(key):
            farewell = self._farewells().get(0)
            if farewell is not None:
                raise ElsewhereError(farewell.message, code=farewell.code)
            now = self._beats().get(0, "")
            beat, heard = (beat, heard) if now == beat else (now, time.monotonic())
            if time.monotonic() - heard > SILENCE:
                raise PeerLostError(f"no sign of life from the first process for {SILENCE:.0f} s")
            self._ended.wait(pause)
            pause = min(2 * pause, 0.5)

    def leave(self, error: BaseException) -> bool:
        """Say that this process ends, and why.

        Returns:
            Whether the first process ends with the very same error, so that this one need not report it.
        """
        own = Farewell(str(error), _exit_code(error), lost=False)
        try:
            self._say(own)
            if self.rank == 0 or not isinstance(error, RejoinderError | KeyboardInterrupt):
                return False
            deadline = time.monotonic() + 5 * BEAT
            while not self._has("left/0") and time.monotonic() < deadline:
                time.sleep(0.05)
            return isinstance(error, RejoinderError) and self._farewells().get(0) == own
        except RuntimeError:  # the store is gone, and with it everybody to tell
            return False

    def verdict(self, lost: PeerLostError) -> RejoinderError:
        """Find out who is gone, and end this process.

        Returns:
            The error to raise: an `ElsewhereError` in all processes but the first that got here.
        """
        try:
            with _ignoring_termination():
                before = self._beats()
                time.sleep(3 * BEAT)
                after, left = self._beats(), self._farewells()
            text = self._describe([r for r, beat in after.items() if before.get(r) == beat], left, lost)
            self._say(Farewell(text, 1, lost=True))
            reporter = self._store.add("reporters", 1) == 1
        except RuntimeError:
            text, reporter = self._text(f"process 0 of {self.count}, or the launcher, is gone"), True
        return RejoinderError(text) if reporter else ElsewhereError(text)

    def _describe(self, silent: list[int], left: dict[int, Farewell], lost: PeerLostError) -> str:
        already = [farewell.message for farewell in left.values() if farewell.lost]
        if already:
            return already[0]
        if left:
            rank = min(left)
            return self._text(f"process {rank} of {self.count} stopped: {left[rank].message}")
        gone = ", ".join(str(rank) for rank in silent if rank != self.rank)
        if not gone:
            return self._text(f"the {self.count} processes lost touch with each other ({lost})")
        return self._text(f"process {gone} of {self.count} is gone: killed, out of memory, or its machine is down")

    @staticmethod
    def _text(what: str) -> str:
        return f"{what}; the same command continues the run from its last checkpoint"

    def _beat(self) -> None:
        count = 0
        while not self._ended.wait(BEAT):
            count += 1
            try:
                self._store.set(f"beat/{self.rank}", str(count))
            except RuntimeError:  # the store is gone; whoever needs another process will notice
                return

    def _beats(self) -> dict[int, str]:
        return self._read("beat")

    def _say(self, farewell: Farewell) -> None:
        self._store.set(f"left/{self.rank}", json.dumps(farewell))

    def _farewells(self) -> dict[int, Farewell]:
        return {rank: Farewell(*json.loads(text)) for rank, text in self._read("left").items()}

    def _read(self, kind: str) -> dict[int, str]:
        keys = {rank: f"{kind}/{rank}" for rank in range(self.count)}
        return {rank: self._store.get(key).decode() for rank, key in keys.items() if self._has(key)}

    def _has(self, key: str) -> bool:
        return bool(self._store.check([key]))


@contextmanager
def _ignoring_termination() -> Iterator[None]:
    """Go on for some seconds although the launcher, which has noticed the same, ends all processes."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go to the main thread
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit_code(error: BaseException) -> int:
    """The exit code that a command has for an error (see the command's table of them)."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    return 2 if isinstance(error, InputError) else 1
