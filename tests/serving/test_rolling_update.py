"""Servers over one database are replaced, one after the other, by servers of another edition of the index."""

import os
import re
import shutil
import subprocess
import threading
import time
import urllib.error
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest
import yaml

import rejoinder
from rejoinder.retrieval.index import Index
from tests.servers import Server, ask, free_port, until_listening

pytestmark = pytest.mark.folder  # it names its store
KEY = "0123456789abcdef" * 2
HEADERS = {"authorization": f"Bearer {KEY}"}
COMPOSE = Path(__file__).parents[2] / "deploy" / "compose.servers.yaml"
REPLIES = {
    "We open at nine and close at six.": ["When do you open?", "What are your hours?"],
    "Your parcel is on its way to you.": ["Where is my order?", "Track my parcel"],
}


@pytest.fixture(params=["retries", "nginx"])
def balancer(request, tmp_path):
    """What sends requests to one of several ports: a client that tries the next one, or nginx as deploy/ sets it."""
    if request.param == "retries":
        return retrying
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    return lambda ports: nginx(tmp_path, ports)


@contextmanager
def retrying(ports):
    turns = cycle(ports)

    def post(path, body):
        for _ in range(200):
            try:
                return ask(next(turns), path, body, HEADERS)
            except urllib.error.HTTPError:
                raise
            except (urllib.error.URLError, ConnectionError):  # of a server that ends, or begins
                time.sleep(0.01)
        raise AssertionError("nobody listens")

    yield post


@contextmanager
def nginx(folder, ports):
    settings = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["configs"]["nginx"]["content"]
    port = free_port()
    settings = re.sub(r"\n *(zone|resolver) .*", "", settings.replace("$$", "$"))  # for Docker's changing addresses
    for name, own in zip(("one:8000 resolve", "two:8000 resolve"), ports, strict=True):
        settings = settings.replace(name, f"127.0.0.1:{own}")
    settings = settings.replace("listen 80;", f"listen 127.0.0.1:{port};")
    folders = "\n".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.getuid() == 0 else ""
    whole = f"{user} pid {folder}/nginx.pid; error_log stderr; events {{}}\nhttp {{\naccess_log off;\n{folders}\n{settings}}}"
    path = folder / "nginx.conf"
    path.write_text(whole, encoding="utf-8")
    with subprocess.Popen(["nginx", "-c", path, "-g", "daemon off;"], stderr=subprocess.DEVNULL) as process:
        try:
            until_listening(port)
            yield lambda way, body: ask(port, way, body, HEADERS)
        finally:
            process.terminate()


def test_no_request_is_lost(postgres, balancer):
    old, new = f"{postgres}&index=edition-one", f"{postgres}&index=edition-two"
    model = rejoinder.load("convert-small")
    index = Index.build(model, REPLIES, old, overwrite=True)
    index.reencode(rejoinder.load("bi-small"), new, overwrite=True)
    ports = [free_port(), free_port()]
    servers = [Server(old, port, {"REJOINDER_WRITE_KEY": KEY}) for port in ports]
    answers, failures, over = [], [], threading.Event()

    def customers(post):
        while not over.is_set():
            try:
                answers.append(post("/v1/replies", {"messages": ["Where is my order?"]}))
            except Exception as error:  # noqa: BLE001 (whatever it is, it must not be)
                failures.append(error)
                time.sleep(0.1)

    try:
        for server in servers:
            server.restart()
        with balancer(ports) as post:
            threads = [threading.Thread(target=customers, args=(post,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for server in servers:
                time.sleep(0.5)
                server.end()
                server.address = new
                server.restart()
            time.sleep(1.5)  # until a balancer tries the last one again
            over.set()
            for thread in threads:
                thread.join(40)
    finally:
        for server in servers:
            server.end()
    assert failures == []
    assert len(answers) > 20
    assert {answer["replies"][0]["text"] for answer in answers} == {"Your parcel is on its way to you."}
    scores = {round(answer["replies"][0]["score"], 3) for answer in answers}
    assert len(scores) == 2, "both editions have answered"
