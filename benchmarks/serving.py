"""`rejoinder serve` under load.

It is measured against the library, the same model without batching, and MiniLM with FAISS. Each
server holds the same replies and gets the same conversations, none of which comes again before it
is forgotten, one after the other, each in a process of its own on this machine, with the load
generator beside it: the cores are shared. One of them answers the same to everything, which is what
HTTP alone allows. Then ours alone: one request at a time, half the greatest load, three times the
greatest load until so many requests have been made, and a start with a large index. The throughput
of the library is that of one process which searches the same texts, with PyTorch, in batches of the
mean size that the server reached; that of one request alone is with onnxruntime, as the server's
is. With PyTorch the server has a copy of the model without programs.

    python benchmarks/serving.py
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import write_result
from encoding import chat
from rejoinder.encoders.folders import find
from rejoinder.encoders.open import open_encoder

HEADER = (
    "POST /v1/replies HTTP/1.1\r\nhost: localhost\r\n"
    "content-type: application/json\r\ncontent-length: {}\r\n\r\n"
)
TURNS = 3
"""Messages of a conversation."""
K = 5
PEERS = {"plain": "without batching", "minilm": "MiniLM", "empty": "an empty endpoint"}


def main() -> None:
    """Measure, print, write `results/serving.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument(
        "--many", type=int, default=100_000, help="candidates of the index whose start is timed"
    )
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument(
        "--requests", type=int, default=100_000, help="at three times the greatest load"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="of PyTorch and FAISS in each process"
    )
    parser.add_argument("--be", choices=PEERS, help=argparse.SUPPRESS)  # a peer, in its own process
    parser.add_argument("--index", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be:
        serve_peer(options.be, options.index)
        return
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # of the servers
    torch.set_num_threads(options.threads)
    messages, _ = chat()
    distinct = list(dict.fromkeys(messages))
    contexts = conversations(distinct)
    with tempfile.TemporaryDirectory() as folder:
        index = str(Path(folder) / "index")
        build(distinct[: options.candidates], index)
        pytorch = str(Path(folder) / "convert-small")
        shutil.copytree(
            find("convert-small"), pytorch, ignore=shutil.ignore_patterns("onnx.json", "*.onnx")
        )
        result = race(index, pytorch, contexts, options)
        show(result)
        result |= alone(index, contexts)
        with serving(ours(index)) as server:
            result |= loads(server, contexts, result["rejoinder"]["per_second"], options)
        many = str(Path(folder) / "many")
        build(distinct[: options.many], many)
        result["start_seconds"] = start(ours(many), contexts)
        result["start_with_pytorch_seconds"] = start(under(pytorch, ours(many)), contexts)
    show(result)
    write_result(
        "serving",
        {**{k: v for k, v in vars(options).items() if k not in ("be", "index")}, **result},
    )


def conversations(messages: Sequence[str]) -> list[Sequence[str]]:
    """Return messages as conversations of `TURNS` each: more than servers keep in memory."""
    return [messages[start : start + TURNS] for start in range(0, len(messages) - TURNS, TURNS)]


def show(result: dict[str, Any]) -> None:
    """Print what there is so far."""
    for name, value in result.items():
        print(f"{name}: {value}", flush=True)


def build(replies: Sequence[str], folder: str) -> None:
    """An index of the bundled model."""
    import rejoinder

    model = open_encoder("convert-small")
    rejoinder.Index.build(model, replies, folder)


# --- Servers
# ------------------------------------------------------------------------------


@dataclass
class Server:
    """A process that answers at a port of this machine."""

    process: subprocess.Popen[str]
    port: int

    def metrics(self) -> dict[str, float]:
        """What our server counts."""
        with urllib.request.urlopen(f"http://localhost:{self.port}/metrics") as answer:
            found = re.findall(r"^(\w+) ([\d.e+]+)$", answer.read().decode(), re.MULTILINE)
        return {name: float(value) for name, value in found}

    def memory(self) -> float:
        """Resident megabytes of the process and those that it started."""
        own = self.process.pid
        started = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="utf-8").split()
        statuses = [
            Path(f"/proc/{each}/status").read_text(encoding="utf-8") for each in (own, *started)
        ]
        return sum(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) for status in statuses) / 1024


def ours(index: str, *options: str) -> list[str]:
    """The command of our server."""
    return [sys.executable, "-m", "rejoinder", "serve", index, "--port", "0", "--json", *options]


def under(model: str, command: Sequence[str]) -> list[str]:
    """The command with another folder of the index's model."""
    return ["env", f"REJOINDER_MODEL={model}", *command]


def peer(name: str, index: str) -> list[str]:
    """The command of another one."""
    return [sys.executable, __file__, "--be", name, "--index", index]


@contextlib.contextmanager
def serving(command: Sequence[str]) -> Iterator[Server]:
    """Start a server, which prints a line of JSON with its `url` when it listens; end it."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield Server(process, int(json.loads(line)["url"].rpartition(":")[2]))
        finally:
            process.terminate()
            process.wait(60)


def serve_peer(name: str, folder: str) -> None:
    """What most people write first: FastAPI, a function that encodes and searches, no batching.

    MiniLM's vectors of the replies are random: its speed does not depend on them.
    """
    import socket

    import uvicorn
    from fastapi import FastAPI

    import rejoinder
    from rejoinder.memory import keep_memory

    keep_memory()
    app, index = FastAPI(), rejoinder.Index.open(folder)
    texts = [candidate.text for _, candidate in index]
    find = (
        _plain(index) if name == "plain" else _minilm(texts) if name == "minilm" else _empty(texts)
    )
    find(["Hello!"], K)

    @app.post("/v1/replies")
    def replies(request: dict[str, Any]) -> dict[str, Any]:
        return {"replies": find(request["messages"], request["k"])}

    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}), flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run([listening])


def _plain(index: Any) -> Callable[[list[str], int], list[dict[str, Any]]]:
    def find(messages: list[str], k: int) -> list[dict[str, Any]]:
        [found] = index.search([messages], k, distinct=True)
        return [each.to_json() for each in found]

    return find


def _empty(texts: Sequence[str]) -> Callable[[list[str], int], list[dict[str, Any]]]:
    return lambda _messages, k: [
        {"text": text, "score": 0.5, "position": i} for i, text in enumerate(texts[:k])
    ]


def _minilm(texts: Sequence[str]) -> Callable[[list[str], int], list[dict[str, Any]]]:
    import faiss
    from sentence_transformers import SentenceTransformer

    from peers import WEIGHTS

    model = SentenceTransformer(str(WEIGHTS), device="cpu")
    vectors = np.random.default_rng(0).standard_normal((len(texts), 384), dtype=np.float32)
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    def find(messages: list[str], k: int) -> list[dict[str, Any]]:
        scores, places = flat.search(model.encode(messages[-1:], normalize_embeddings=True), k)
        best = zip(scores[0].tolist(), places[0].tolist(), strict=True)
        return [{"text": texts[place], "score": score, "position": place} for score, place in best]

    return find


# --- Load
# ------------------------------------------------------------------------------


@dataclass
class Load:
    """Outcome of a load: seconds of each answer by its status, and seconds in all.

    Status 0: the connection was closed.
    """

    seconds: float = 0.0
    answers: dict[int, list[float]] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Requests per second that were answered, and percentiles of their milliseconds."""
        good = np.array(self.answers.get(200, [np.nan])) * 1000
        p50, p99 = np.percentile(good, [50, 99]).tolist()
        counts = Counter({status: len(times) for status, times in self.answers.items()})
        return {
            "per_second": counts[200] / self.seconds,
            "p50_ms": p50,
            "p99_ms": p99,
            "statuses": dict(counts),
        }


class Connection:
    """One connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, request: bytes) -> int:
        """Send a request, read its answer, return the status."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if length is None:
            raise ConnectionError(head.decode())
        await self.reader.readexactly(int(length[1]))
        return int(head[9:12])


async def load(
    port: int,
    asked: Iterator[Sequence[str]],
    connections: int,
    seconds: float,
    rate: float | None = None,
) -> Load:
    """Send requests for so long: each connection the next at once, or all together at a rate.

    They are the next of the conversations `asked`. At a rate, a request's time counts from when it
    was due, also if no connection was free.
    """
    bodies = (json.dumps({"messages": messages, "k": K}).encode() for messages in asked)
    requests = (HEADER.format(len(body)).encode() + body for body in bodies)
    result, begin = Load(), time.perf_counter()
    due = itertools.count() if rate is None else (begin + i / rate for i in itertools.count())

    async def client() -> None:
        one = Connection(*await asyncio.open_connection("127.0.0.1", port))
        while True:
            start = time.perf_counter()
            if rate is not None:
                start = next(due)
                await asyncio.sleep(start - time.perf_counter())
            if start > begin + seconds:
                break
            try:
                status = await one.ask(next(requests))
            except (OSError, asyncio.IncompleteReadError):
                status, one = 0, Connection(*await asyncio.open_connection("127.0.0.1", port))
            result.answers.setdefault(status, []).append(time.perf_counter() - start)
        one.writer.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    result.seconds = time.perf_counter() - begin
    return result


def race(
    index: str, pytorch: str, contexts: Sequence[Sequence[str]], options: argparse.Namespace
) -> dict[str, Any]:
    """The greatest load of each server, two turns each, and the library's own speed."""
    result: dict[str, Any] = {}
    commands = {"rejoinder": ours(index), "rejoinder, 2 workers": ours(index, "--workers", "2")}
    commands["rejoinder, with PyTorch"] = under(pytorch, ours(index))
    commands |= {shown: peer(name, index) for name, shown in PEERS.items()}
    for name, command in commands.items():
        asked = itertools.cycle(contexts)
        with serving(command) as server:
            asyncio.run(load(server.port, asked, options.connections, 2))
            before = server.metrics() if name == "rejoinder" else {}
            turns = [
                asyncio.run(load(server.port, asked, options.connections, options.seconds))
                for _ in range(2)
            ]
            result[name] = max(
                (turn.facts() for turn in turns), key=lambda facts: facts["per_second"]
            )
            if name == "rejoinder":
                grown = {key: value - before.get(key, 0) for key, value in server.metrics().items()}
                size = grown["rejoinder_batch_jobs_sum"] / grown["rejoinder_batch_jobs_count"]
                result["mean_batch"] = size
    result["library"] = library(
        index, contexts, max(1, round(result["mean_batch"])), options.seconds
    )
    result["share_of_library"] = result["rejoinder"]["per_second"] / result["library"]
    result["times_without_batching"] = (
        result["rejoinder"]["per_second"] / result["without batching"]["per_second"]
    )
    return result


def library(folder: str, contexts: Sequence[Sequence[str]], size: int, seconds: float) -> float:
    """Conversations per second that the library answers in batches of a size, in this process."""
    import rejoinder
    from rejoinder.memory import keep_memory

    keep_memory()
    index, done = rejoinder.Index.open(folder), 0
    index.search(contexts[:size], K, distinct=True)
    begin = time.perf_counter()
    while time.perf_counter() < begin + seconds:
        start = done % (len(contexts) - size)
        index.search(contexts[start : start + size], K, distinct=True)
        done += size
    return done / (time.perf_counter() - begin)


def alone(folder: str, contexts: Sequence[Sequence[str]], count: int = 200) -> dict[str, Any]:
    """Milliseconds of one request at a time, and of the library in this process, taking turns."""
    import rejoinder

    index = rejoinder.Index.open(folder, open_encoder("convert-small", light=True))
    times: dict[str, list[float]] = {"request_alone_ms": [], "library_alone_ms": []}

    async def turns(port: int) -> None:
        one = Connection(*await asyncio.open_connection("127.0.0.1", port))
        for context in contexts[:count]:
            body = json.dumps({"messages": context, "k": K}).encode()
            start = time.perf_counter()
            await one.ask(HEADER.format(len(body)).encode() + body)
            middle = time.perf_counter()
            index.search([context], K, distinct=True)
            times["request_alone_ms"].append(1000 * (middle - start))
            times["library_alone_ms"].append(1000 * (time.perf_counter() - middle))
        one.writer.close()

    with serving(ours(folder)) as server:
        asyncio.run(turns(server.port))
    return {name: statistics.median(values[count // 10 :]) for name, values in times.items()}


def loads(
    server: Server, contexts: Sequence[Sequence[str]], most: float, options: argparse.Namespace
) -> dict[str, Any]:
    """Half the greatest load; three times it, with the memory before and after."""
    asked = itertools.cycle(contexts)
    asyncio.run(load(server.port, asked, options.connections, 2))
    half = asyncio.run(load(server.port, asked, options.connections, options.seconds, most / 2))
    asyncio.run(load(server.port, asked, 8 * options.connections, 5, 3 * most))
    before, seconds = server.memory(), options.requests / (3 * most)
    over = asyncio.run(load(server.port, asked, 8 * options.connections, seconds, 3 * most))
    memory = {"before_mb": before, "after_mb": server.memory()}
    return {"half_load": half.facts(), "overload": over.facts(), "memory": memory}


def start(command: Sequence[str], contexts: Sequence[Sequence[str]]) -> float:
    """Seconds from the command to its first answer; the least of three."""
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        with serving(command) as server:
            asyncio.run(load(server.port, iter(contexts), 1, 0))
            seconds.append(time.perf_counter() - begin)
    return min(seconds)


if __name__ == "__main__":
    main()
