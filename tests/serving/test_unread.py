"""Clients that do not read their answers, over raw sockets: they are left, and their memory is free again."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
import uvicorn
from uvicorn.server import ServerState

from rejoinder.serving import protocol
from rejoinder.serving.protocol import BoundedProtocol

MEGABYTE = 1 << 20
ANSWER = 20 * MEGABYTE
SMALL = 1 * MEGABYTE
PATIENCE = 1.0  # seconds
SERVER = f"""
import sys
from rejoinder.serving import bounds, protocol
from rejoinder.serving.addresses import listen

protocol.UNREAD = float(sys.argv[1])
protocol.MOST_UNSENT = int(sys.argv[2])

async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    size = {SMALL} if scope["path"] == "/small" else {ANSWER}
    headers = [(b"content-length", str(size).encode())]
    await send({{"type": "http.response.start", "status": 200, "headers": headers}})
    await send({{"type": "http.response.body", "body": b"x" * size}})

listening = listen("127.0.0.1", 0)
print(listening.getsockname()[1], flush=True)
bounds.run(application, listening)
"""
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory in /proc")


class Answering:
    """A server of large answers in a process of its own."""

    def __init__(self, process):
        self.process = process
        self.port = int(process.stdout.readline())

    def memory(self):
        """Return the MB that the server has."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def ask(self, path="/", more="", kept=4096):
        """Ask, and read nothing; return the connection once the answer has begun."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kept)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{more}\r\n".encode())
        connection.recv(1, socket.MSG_PEEK)
        return connection


@contextlib.contextmanager
def answering(patience=PATIENCE, most_unsent=1 << 40):
    command = [sys.executable, "-c", SERVER, str(patience), str(most_unsent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Answering(process)
        finally:
            process.kill()


def read(connection):
    """Read on; return the bytes that come until the answer or the connection ends."""
    size = 0
    with contextlib.suppress(ConnectionResetError):
        while size < ANSWER and (part := connection.recv(MEGABYTE)):
            size += len(part)
    return size


def until_below(server, most):
    """Wait until the server has less memory; return what it has at last."""
    end = time.monotonic() + 10 * PATIENCE
    while (memory := server.memory()) > most and time.monotonic() < end:
        time.sleep(0.05)
    return memory


@pytest.mark.parametrize("more", ["", "connection: close\r\n"])
def test_who_reads_nothing_is_left_and_the_memory_is_free_again(more):
    with answering() as server, contextlib.ExitStack() as stack:
        stack.enter_context(server.ask("/small"))
        before = server.memory()
        waiting = [stack.enter_context(server.ask(more=more)) for _ in range(6)]
        assert server.memory() > before + 80
        assert until_below(server, before + 20) <= before + 20
        assert max(map(read, waiting)) < MEGABYTE


def test_who_reads_slowly_gets_the_whole_answer():
    """In several times the seconds after which who reads nothing is left."""
    with answering() as server, server.ask(kept=1 << 20) as connection:
        begun = time.monotonic()
        size = 0
        while size < ANSWER and (part := connection.recv(ANSWER // 40, socket.MSG_WAITALL)):
            size += len(part)
            time.sleep(0.1)
        assert size >= ANSWER
        assert time.monotonic() - begun > 3 * PATIENCE


def test_the_slowest_are_left_where_too_much_waits():
    with answering(patience=60, most_unsent=50 * MEGABYTE) as server, contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(server.ask()) for _ in range(5)]
        assert max(map(read, waiting[:3])) < MEGABYTE
        assert min(map(read, waiting[3:])) >= ANSWER


@pytest.mark.parametrize("reads", [False, True])
def test_a_connection_that_is_closed_waits_no_longer_for_its_last_bytes(monkeypatch, reads):
    """They are fewer than those for which writing is paused."""
    monkeypatch.setattr(protocol, "UNREAD", 0.05)

    async def run():
        config = uvicorn.Config(None, log_config=None, http=BoundedProtocol, ws="none")
        config.load()
        transport = mock.MagicMock()
        transport.get_write_buffer_size.side_effect = [1000, 0] if reads else lambda: 1000
        transport.is_closing.return_value = False
        connection = BoundedProtocol(config, ServerState(), {})
        connection.connection_made(transport)
        connection.timeout_keep_alive_handler()
        await asyncio.sleep(0.3)
        return transport

    transport = asyncio.run(run())
    assert transport.close.call_count == 1
    assert transport.abort.call_count == (0 if reads else 1)
