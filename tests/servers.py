"""Servers that tests start, each `rejoinder serve` in a process of its own, and what waits for them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager


class Server:
    """A process of `rejoinder serve` at a port that stays its own; `settings` are of its environment."""

    def __init__(self, address, port=None, settings=None):
        self.address, self.settings = address, settings or {}
        self.port = port or free_port()
        self.process = None

    def start(self):
        """Start it, and return at once; it says in a line of its output when it listens."""
        command = [sys.executable, "-m", "rejoinder", "serve", self.address, "--port", str(self.port), "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | self.settings)

    def restart(self):
        """Start it, and wait until it listens; start it again, if its database is not there yet."""
        for _ in range(30):
            self.start()
            if self.process.stdout.readline():
                return
            self.process.wait(20)
        raise AssertionError(f"no server over {self.address} has begun to listen")

    def end(self, how=signal.SIGTERM):
        """Send it a signal, and wait until it has ended."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process.stdout.close()

    def ask(self, path, body):
        return ask(self.port, path, body)


@contextmanager
def served(address):
    """A server that listens, and ends afterwards."""
    server = Server(address)
    server.restart()
    try:
        yield server
    finally:
        server.end()


def ask(port, path, body, headers=()):
    """Post a body of JSON to a port of this machine; return the answer."""
    request = urllib.request.Request(
        f"http://localhost:{port}{path}", json.dumps(body).encode(), {"content-type": "application/json", **dict(headers)}
    )
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.load(answer)


def get(port, path):
    """Ask a port of this machine; return the answer."""
    with urllib.request.urlopen(f"http://localhost:{port}{path}", timeout=40) as answer:
        return json.load(answer)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def until(found, seconds=60.0):
    """Wait until something is so; return how long it took."""
    start = time.monotonic()
    while not found():
        assert time.monotonic() < start + seconds
        time.sleep(0.02)
    return time.monotonic() - start


def until_listening(port):
    """Wait until somebody listens at a port of this machine."""
    until(lambda: _listens(port))


def _listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
