"""Honest clients beside a hostile one: their answers and latencies, and the server's memory.

A server answers two honest clients, which ask one question after the other, while two hostile ones
do the same thing over and over. The answers that the honest clients get must be those that they get
without company.

    python benchmarks/hostile.py
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.client
import itertools
import json
import re
import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from common import write_result
from serving import build, ours, serving

HONEST, CLIENTS = 2, 2
QUESTIONS = [["Hello!"], ["When do you open?"], ["Hi!", "Where is my order?"], ["Thank you."]]
REPLIES = ["Hello!", "We open at nine.", "It is on its way.", "You are welcome.", "Goodbye."]
JSON = "content-type: application/json\r\n"
Attack = Callable[[int, int], None]
"""Sends about so many bytes to a port."""


def main() -> None:
    """Measure, print, write `results/hostile.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument(
        "--bytes", type=int, default=40_000_000, help="that a hostile client sends at once, at most"
    )
    parser.add_argument("--only", choices=ATTACKS, help="one kind of hostile client")
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        index = str(Path(folder) / "index")
        build(REPLIES, index)
        with serving(ours(index)) as server:
            port = server.port
            with neighbours(port):
                time.sleep(options.seconds)
            for name in [options.only] if options.only else ["nobody", *ATTACKS]:
                before = peak(server.process.pid, reset=True)
                with neighbours(port) as honest:
                    repeated(ATTACKS.get(name), port, options.bytes, options.seconds)
                rows[name] = {
                    **honest.facts(),
                    "grown_mb": round(peak(server.process.pid) - before, 1),
                }
                print(name, rows[name], flush=True)
    write_result("hostile", {"seconds": options.seconds, "rows": rows})


@dataclass
class Honest:
    """Answers that honest clients got."""

    latencies: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Other answers than without company, and failures."""

    def facts(self) -> dict[str, Any]:
        """Return the figures."""
        p50, p99 = np.percentile(self.latencies, [50, 99]) * 1000
        return {
            "answers": len(self.latencies),
            "wrong": len(self.wrong),
            "p50_ms": round(float(p50), 1),
            "p99_ms": round(float(p99), 1),
        }


@contextlib.contextmanager
def neighbours(port: int) -> Iterator[Honest]:
    """Let honest clients ask, from now on to the end."""
    honest, ended = Honest(), threading.Event()
    expected = [ask(port, question) for question in QUESTIONS]

    def work() -> None:
        for question, answer in itertools.cycle(zip(QUESTIONS, expected, strict=True)):
            if ended.is_set():
                return
            start = time.perf_counter()
            try:
                found = ask(port, question)
            except (OSError, http.client.HTTPException) as error:
                found = repr(error)
            honest.latencies.append(time.perf_counter() - start)
            if found != answer:
                honest.wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(HONEST)]
    for thread in threads:
        thread.start()
    try:
        yield honest
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def repeated(attack: Attack | None, port: int, size: int, seconds: float) -> None:
    """Let hostile clients do the same over and over."""
    end = time.monotonic() + seconds

    def work() -> None:
        while time.monotonic() < end:
            if attack is None:
                time.sleep(0.1)
            else:
                attack(port, size)

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def peak(server: int, *, reset: bool = False) -> float:
    """Return the most resident megabytes of a server and its processes since the last reset.

    Or what they have now.
    """
    started = Path(f"/proc/{server}/task/{server}/children").read_text(encoding="utf-8").split()
    total = 0
    for each in (server, *started):
        if reset:
            Path(f"/proc/{each}/clear_refs").write_text("5", encoding="utf-8")
        status = Path(f"/proc/{each}/status").read_text(encoding="utf-8")
        total += int(re.findall(r"VmHWM:\s+(\d+)", status)[0])
    return total / 1024


def ask(port: int, messages: list[str]) -> str:
    """Ask for the best reply: status and text."""
    status, body = request(
        port, "POST", "/v1/replies", json.dumps({"messages": messages, "k": 1}).encode()
    )
    found = json.loads(body)
    return f"{status} {found['replies'][0]['text'] if status == 200 else found}"


def request(
    port: int, method: str, path: str, body: bytes, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Make a request on a connection of its own."""
    connection = http.client.HTTPConnection("localhost", port, timeout=60)
    with contextlib.closing(connection):
        connection.request(
            method, path, body, {"content-type": "application/json", **(headers or {})}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()


def flood(port: int, parts: Iterable[bytes], most: int, seconds: float = 20.0) -> bytes:
    """Send parts and read meanwhile, until the server closes; return the first bytes of the answer.

    Args:
        port: of the server.
        parts: what is sent.
        most: bytes that are sent at most.
        seconds: after which this ends in any case; 1 of them without anything to send or to read.
    """
    end, sent, rest, answer = time.monotonic() + seconds, 0, b"", b""
    parts = iter(parts)
    with (
        socket.create_connection(("127.0.0.1", port)) as connection,
        contextlib.suppress(ConnectionError),
    ):
        connection.setblocking(False)
        while time.monotonic() < end:
            if not rest and sent < most:
                rest = next(parts, b"")
            readable, writable, _ = select.select(
                [connection], [connection] if rest else [], [], 1.0
            )
            if not readable and not writable:
                break
            if readable:
                received = connection.recv(1 << 20)
                if not received:
                    break
                answer = answer or received
            if writable:
                count = connection.send(rest)
                sent, rest = sent + count, rest[count:]
    return answer


# --- Hostile clients
# ------------------------------------------------------------------------------


def endlessly(head: str, part: str, about: int = 1 << 16) -> Attack:
    """Send a head, and then the same part again and again."""
    block = part.encode() * (about // len(part))

    def attack(port: int, size: int) -> None:
        flood(port, itertools.chain([head.encode() + block], itertools.repeat(block)), size)

    return attack


def posting(path: str, make: Callable[[int], bytes], most: int) -> Attack:
    """Post a body of some bytes, `most` at most."""

    def attack(port: int, size: int) -> None:
        with contextlib.suppress(OSError):  # a body that is too large is not read
            request(port, "POST", path, make(min(size, most)))

    return attack


def half_sent(path: str, length: int) -> Attack:
    """Open connections that send a request but for its last byte, and leave."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: {length}\r\n\r\n"
    sent = head.encode() + b" " * (length - 1)

    def attack(port: int, _size: int) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(50):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                with contextlib.suppress(ConnectionError):
                    connection.sendall(sent)
            time.sleep(0.5)

    return attack


def reload_from_a_page(port: int, _size: int) -> None:
    """Post what a page of another site may post without asking first."""
    request(
        port,
        "POST",
        "/admin/reload",
        b"",
        {"content-type": "text/plain", "origin": "https://evil.example"},
    )


def deep(_size: int) -> bytes:
    """A message with a field that nests too deep to be passed on."""
    return b'{"messages":[{"role":"user","content":"hi","x":' + b"[" * 600 + b"]" * 600 + b"}]}"


def many(before: str, part: str, after: str) -> Callable[[int], bytes]:
    """A body of many parts; each {} in a part is a number of its own."""

    @functools.cache
    def make(size: int) -> bytes:
        count = (size - 200) // (len(part) + (6 if "{}" in part else 1))
        return (
            f"{before}{','.join(part.replace('{}', str(i)) for i in range(count))}{after}".encode()
        )

    return make


BULK = 4 << 20
HEAD = "GET /health HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = (
    "POST /v1/replies HTTP/1.1\r\nhost: localhost\r\n"
    f"{JSON}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n"
)
ATTACKS: dict[str, Attack] = {
    "pipelined requests": endlessly("", f"{HEAD}\r\n"),
    "headers without end": endlessly(HEAD, "a: b\r\n"),
    "a header without end": endlessly(f"{HEAD}a: ", "b"),
    "trailers without end": endlessly(CHUNKED, "a: b\r\n"),
    "half-sent conversations": half_sent("/v1/replies", 60_000),
    "half-sent in bulk": half_sent("/v1/embeddings", 2_000_000),
    "deep nesting": posting("/v1/replies", deep, BULK),
    "unknown keys": posting("/v1/replies", many('{"messages":["a"],', '"{}":0', "}"), BULK),
    "unknown keys in bulk": posting(
        "/v1/embeddings", many('{"input":"a",', '"{}":0', "}"), 2_000_000
    ),
    "numbers in bulk": posting("/v1/embeddings", many('{"input":[', "1", "]}"), 2_000_000),
    "lists in bulk": posting(
        "/v1/candidates", many('{"candidates":[{"text":[', "[]", "]}]}"), 2_000_000
    ),
    "objects in bulk": posting(
        "/v1/rerank", many('{"query":"a","documents":[', '{"a":1}', "]}"), 400_000
    ),
    "reloads from a page": reload_from_a_page,
}

if __name__ == "__main__":
    main()
