"""Hostile clients over raw sockets: honest clients beside them get the same answers, and memory stays bounded."""

import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

import hostile
from tests.cli.test_serve import ask, serving

MEGABYTE = 1 << 20
GROWTH = 50  # MB
pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory in /proc"),
    pytest.mark.folder,  # which another process serves
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    hostile.build(hostile.REPLIES, str(folder / "index"))
    with serving(folder / "index") as (process, port):
        with hostile.neighbours(port):  # what grows with the first requests has grown
            time.sleep(1)
        yield process, port


def check(server, name, size):
    process, port = server
    before = hostile.peak(process.pid, reset=True)
    with hostile.neighbours(port) as honest:
        hostile.ATTACKS[name](port, size)
    assert not honest.wrong
    assert honest.latencies
    assert hostile.peak(process.pid) - before < GROWTH


@pytest.mark.parametrize("name", hostile.ATTACKS)
def test_honest_clients_beside_a_hostile_one(server, name):
    # each of them is answered
    check(server, name, (2 if name == "pipelined requests" else 10) * MEGABYTE)


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile.ATTACKS)
def test_honest_clients_beside_a_hostile_one_that_sends_much(server, name):
    check(server, name, 40 * MEGABYTE)


def exchange(server, sent):
    """Send bytes; return all that comes until the server closes."""
    with socket.create_connection(("127.0.0.1", server[1]), timeout=30) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_too_many_headers_are_refused_in_the_form_of_all_errors(server):
    lines = [f"x-{number}: 1\r\n" for number in range(101)]
    for more in ("".join(lines), f"x: {'y' * 40_000}\r\n"):
        answer = exchange(server, f"{hostile.HEAD}{more}\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert b'"code": 431' in answer
        assert b"100 headers" in answer
    fine = "".join(lines[:90])
    assert exchange(server, f"{hostile.HEAD}{fine}connection: close\r\n\r\n".encode()).startswith(
        b"HTTP/1.1 200"
    )
    assert exchange(server, b"NO HTTP\r\n\r\n").startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_pipelined_requests_are_answered_in_their_order(server):
    body = b'{"messages": ["Hello!"], "k": 1}'
    post = f"POST /v1/replies HTTP/1.1\r\nhost: localhost\r\n{hostile.JSON}content-length: {len(body)}\r\n\r\n".encode()
    asked = b"".join([f"{hostile.HEAD}\r\n".encode(), post + body] * 300)
    answer = exchange(
        server, asked + b"GET /none HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )
    bodies = re.findall(rb'\{"status"|\{"replies"|\{"error"', answer)
    assert bodies == [b'{"status"', b'{"replies"'] * 300 + [b'{"error"']


def test_trailers_are_no_headers(server):
    """A trailer names another host, which as a header would be refused."""
    body = b'{"messages": ["Hello!"]}'
    chunked = hostile.CHUNKED.partition("2\r\n")[0].encode()
    sent = chunked + b"%x\r\n%b\r\n0\r\nhost: evil.example\r\n\r\n" % (len(body), body)
    sent += b"GET /none HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    assert re.findall(rb"HTTP/1.1 (\d+)", exchange(server, sent)) == [b"200", b"404"]


@pytest.mark.parametrize("sent", ["headers", "body"])
def test_a_half_sent_request_does_not_hold_up_the_end(tmp_path, sent):
    hostile.build(hostile.REPLIES, str(tmp_path / "index"))
    head = f"POST /v1/replies HTTP/1.1\r\nhost: localhost\r\n{hostile.JSON}content-length: 600\r\n"
    with (
        serving(tmp_path / "index") as (process, port),
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        connection.sendall(head.encode() + (b"\r\n{" if sent == "body" else b""))
        assert ask(port, "GET", "/health")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) in (0, -signal.SIGTERM)


def test_two_hosts_are_refused(server):
    for hosts in ("host: localhost\r\nhost: localhost\r\n", ""):
        answer = exchange(
            server, f"GET /health HTTP/1.1\r\n{hosts}connection: close\r\n\r\n".encode()
        )
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"one Host header" in answer


def test_the_computing_process_is_started_again(tmp_path):
    """As after a mapped file was truncated, which is a signal that nothing can catch; once the file is whole again."""
    hostile.build(hostile.REPLIES, str(tmp_path / "index"))
    with serving(tmp_path / "index") as (process, port):
        before = ask(port, "POST", "/v1/replies", {"messages": ["Hello!"], "k": 1})[1]["replies"]
        started = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        [computing] = [
            each for each in started if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()
        ]
        (tmp_path / "index").rename(tmp_path / "away")
        os.kill(int(computing), signal.SIGBUS)
        end = time.monotonic() + 60
        # it takes a moment to end
        while ask(port, "POST", "/v1/replies", {"messages": ["Hello!"], "k": 1})[0] != 503:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert ask(port, "GET", "/ready")[0] == 503
        (tmp_path / "away").rename(tmp_path / "index")
        while True:
            status, found = ask(port, "POST", "/v1/replies", {"messages": ["Hello!"], "k": 1})
            if status == 200:
                assert found["replies"] == before
                break
            assert status == 503
            assert time.monotonic() < end
            time.sleep(0.1)
        assert ask(port, "GET", "/ready")[0] == 200
        assert ask(port, "POST", "/v1/candidates", {"candidates": ["New."]})[0] == 201
        assert process.poll() is None


@pytest.mark.slow
def test_the_benchmark_runs(monkeypatch):
    monkeypatch.setattr(
        "sys.argv",
        ["hostile.py", "--seconds", "0.3", "--bytes", "100000", "--only", "deep nesting"],
    )
    written = {}
    monkeypatch.setattr(
        hostile, "write_result", lambda name, result: written.update({name: result})
    )
    hostile.main()
    row = written["hostile"]["rows"]["deep nesting"]
    assert row["answers"] > 0
    assert row["wrong"] == 0
    assert 0 < row["p50_ms"] <= row["p99_ms"]
