"""`benchmarks/serving.py` at its smallest size, and what it makes of a server's answers."""

import asyncio
import itertools
import sys

import pytest

import serving


@pytest.mark.parametrize("rate", [None, 200.0])
def test_load_counts_answers_by_status(rate):
    asked = []

    async def answer(reader, writer):
        while head := await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(int(head.rpartition(b"content-length: ")[2]))
            asked.append(head)
            status = b"200 OK" if len(asked) % 2 else b"429 Too Many Requests"
            writer.write(b"HTTP/1.1 %s\r\ncontent-length: 2\r\n\r\nok" % status)

    async def run():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await serving.load(port, itertools.repeat(["Hi!"]), 3, 0.3, rate)

    found = asyncio.run(run()).facts()
    assert sum(found["statuses"].values()) == len(asked)
    assert abs(found["statuses"][200] - found["statuses"][429]) <= 1
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert rate is None or 30 < len(asked) <= 65


@pytest.mark.slow
def test_it_runs(monkeypatch):
    small = "--candidates 60 --many 80 --connections 4 --seconds 1 --requests 200"
    monkeypatch.setattr(sys, "argv", ["serving.py", *small.split()])
    written = {}
    monkeypatch.setattr(
        serving, "write_result", lambda name, result: written.update({name: result})
    )
    serving.main()
    result = written["serving"]
    assert result["rejoinder"]["statuses"][200] > 0
    assert result["start_seconds"] > 0
