"""Who is still there, and why somebody is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from torch.distributed import HashStore

from rejoinder.errors import InputError, RejoinderError
from rejoinder.training import presence
from rejoinder.training.presence import ElsewhereError, PeerLostError, Presence

LOST = PeerLostError("Connection closed by peer")
AGAIN = "; the same command continues the run from its last checkpoint"

Start = Callable[[int], list[Presence]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start so many processes, which here are objects that share a store."""
    monkeypatch.setattr(presence, "BEAT", 0.1)
    started: list[Presence] = []

    def start(count: int) -> list[Presence]:
        store = HashStore()
        started.extend(Presence(rank, count, store) for rank in range(count))
        return started

    yield start
    for one in started:
        one.close()


def test_the_silent_ones_are_named_once(start: Start) -> None:
    everybody = start(4)
    everybody[1].close()
    everybody[3].close()
    first, second = everybody[2].verdict(LOST), everybody[0].verdict(LOST)
    said = f"process 1, 3 of 4 is gone: killed, out of memory, or its machine is down{AGAIN}"
    assert (str(first), str(second)) == (said, said)
    assert not isinstance(first, ElsewhereError)
    assert isinstance(second, ElsewhereError), "one process says it"


def test_one_that_ended_because_another_was_lost_is_not_taken_for_lost(start: Start) -> None:
    everybody = start(3)
    everybody[1].close()
    said = str(everybody[0].verdict(LOST))
    everybody[0].close()  # it ends now, and its silence is another one's fault
    assert str(everybody[2].verdict(LOST)) == said
    assert said.startswith("process 1 of 3 is gone")


def test_one_that_ended_with_an_error_is_quoted(start: Start) -> None:
    first, second = start(2)
    assert not second.leave(OSError("the disk is full"))
    second.close()
    assert str(first.verdict(LOST)) == f"process 1 of 2 stopped: the disk is full{AGAIN}"


def test_where_all_are_there_the_connection_is_to_blame(start: Start) -> None:
    first, _ = start(2)
    said = f"the 2 processes lost touch with each other (Connection closed by peer){AGAIN}"
    assert str(first.verdict(LOST)) == said


def test_an_error_that_all_have_is_reported_by_the_first(start: Start) -> None:
    first, second = start(2)
    assert not first.leave(InputError("no such file"))
    assert second.leave(InputError("no such file"))
    assert not second.leave(InputError("another one"))
    assert not second.leave(ValueError("no such file")), "a bug is shown wherever it is"
    assert not second.leave(KeyboardInterrupt()), "whoever calls decides"


def test_waiting_for_the_first_ends_when_it_is_done_or_has_failed(start: Start) -> None:
    first, second = start(2)
    first.announce("turn/0")
    second.wait_for_first("turn/0")
    first.leave(InputError("no such recipe"))
    with pytest.raises(ElsewhereError, match="no such recipe") as caught:
        second.wait_for_first("turn/1")
    assert caught.value.code == 2
    assert ElsewhereError("", RejoinderError()).code == 1


def test_waiting_for_the_first_ends_when_it_is_silent(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = start(2)
    monkeypatch.setattr(presence, "SILENCE", 0.3)
    first.close()
    began = time.monotonic()
    with pytest.raises(PeerLostError, match="no sign of life from the first process"):
        second.wait_for_first("turn/0")
    assert time.monotonic() - began < 30
