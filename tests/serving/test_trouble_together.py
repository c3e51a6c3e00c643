"""Everything at once: two servers' writers over one index, a log that is harmed, and kills of computing processes."""

import os
import random
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest

import rejoinder
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.retrieval.index import Index
from tests.cli.test_serve import ask, serving
from tests.logs import recorder

SECONDS = 6.0
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="finds computing processes in /proc"
)


def write(port, name, ended, made, refused):
    """Add replies and give feedback; note what was acknowledged and what was refused for good."""
    for number in range(10_000):
        if ended.is_set():
            return
        text = f"{name} {number}"
        key = {"idempotency-key": text.replace(" ", "-")}
        for kind, path, body in (
            ("reply", "/v1/candidates", {"candidates": [text]}),
            ("entry", "/v1/feedback", {"messages": [text], "offered": [0], "chosen": 0}),
        ):
            own = {**key, "idempotency-key": f"{kind}-{key['idempotency-key']}"}
            for attempt in range(200):
                status, found = ask(port, "POST", path, body, **own)
                if status < 300:
                    made.append((kind, text))
                    break
                assert status in (403, 429, 503, 507), (status, found)
                if attempt == 3 and number % 5 == 4:  # and never again
                    refused.append((kind, text))
                    break
                time.sleep(0.05)


def disturb(log, processes, ended, chance):
    """Lock the log, take it away for a moment, and kill computing processes."""
    while not ended.wait(chance.uniform(0.1, 0.5)):
        if chance.random() < 0.4:
            process = chance.choice(processes)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            for child in children:
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGKILL)
        else:
            lock = sqlite3.connect(log, isolation_level=None)
            lock.execute("BEGIN IMMEDIATE")
            time.sleep(chance.uniform(0.0, 0.6))
            lock.execute("ROLLBACK")
            lock.close()


@pytest.mark.folder  # harms its files
@pytest.mark.slow
def test_acknowledged_is_there_once_and_refused_is_not(tmp_path):
    folder = tmp_path / "index"
    built = Index.build(rejoinder.load("convert-small"), ["Hello!", "Bye."], folder)
    recorder(built).feedback(["Hi!"], [0])
    made, refused, ended = [], [], threading.Event()
    with serving(folder) as (one, first), serving(folder) as (other, second):
        writers = [
            threading.Thread(target=write, args=(port, f"writer {at}", ended, made, refused))
            for at, port in enumerate((first, second))
        ]
        log = FeedbackLog(folder).database.path
        noise = threading.Thread(target=disturb, args=(log, [one, other], ended, random.Random(0)))
        for thread in (*writers, noise):
            thread.start()
        time.sleep(SECONDS)
        ended.set()
        for thread in (*writers, noise):
            thread.join()
    texts = [reply.text for _, reply in Index.open(folder, verify=True)]
    messages = [entry.context[0] for entry in FeedbackLog(folder)]
    for kind, text in made:
        assert (texts if kind == "reply" else messages).count(text) == 1, (kind, text)
    for kind, text in refused:
        assert (texts if kind == "reply" else messages).count(text) == 0, (kind, text)
    assert len(made) > 5
