"""Imported files: read in a process that is ended when it takes too long or too much memory."""

import asyncio
import base64
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from rejoinder.errors import InputError
from rejoinder.serving import files


def children():
    """Processes that this one, by any of its threads, has started."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # ended meanwhile
            parent = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                found.add(process.name)
    return found


def content(text):
    return base64.b64encode(text.encode()).decode()


def read(name, text):
    return asyncio.run(files.FileReader().read(name, content(text)))


def test_a_file_is_read_in_another_process():
    replies, notes = read("faq.csv", "question,answer\nWhen?,At nine.\n")
    assert [(reply.text, reply.examples) for reply in replies] == [("At nine.", (("When?",),))]
    assert notes == ["faq.csv: table (comma, utf-8): text = answer, questions = question"]


def test_what_is_wrong_names_the_file_as_it_was_sent():
    with pytest.raises(InputError, match=r"^a.json is not imported: a.json: not JSON") as raised:
        read("a.json", '[{"text": "a"}')
    assert "/tmp" not in str(raised.value)


def test_whoever_sends_a_file_is_told_of_no_settings():
    with pytest.raises(InputError) as caught:
        read("canned.csv", "Thema,Inhalt\na,Hello\n")
    assert "--set" not in str(caught.value)
    assert "rename the columns of the replies and their questions to answer and question" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("".join(f"reply {number}\n" for number in range(3_001)), "more than 3,000 replies"),
        ("a" * 20_001, "a text of more than 20,000 letters"),
    ],
)
def test_too_many_and_too_long_replies_are_refused(text, said):
    with pytest.raises(InputError, match=said):
        read("a.txt", text)


def test_too_many_examples_and_too_long_titles_are_refused():
    with pytest.raises(InputError, match="5,000 replies and examples"):
        read("a.jsonl", msgspec.json.encode({"text": "a", "examples": [f"b{n}" for n in range(10_000)]}).decode())
    with pytest.raises(InputError, match="a title of more than 1,000"):
        read("a.jsonl", msgspec.json.encode({"text": "a", "title": "b" * 1_001}).decode())


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_reading_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(files, "SECONDS", 0.2)
    monkeypatch.setattr(files, "_START", "import time; time.sleep(60)  # {path}")
    before = children()
    start = time.monotonic()
    with pytest.raises(InputError, match="takes more than"):
        read("a.txt", "hello")
    assert time.monotonic() - start < 10
    assert children() <= before


SHOW = "import os; from rejoinder.serving import files; files._read = lambda _: {'replies': [], 'notes': [*os.environ]}; files.main()"


def test_the_process_gets_no_secrets_of_the_server(monkeypatch):
    """Nor anything else that it does not need."""
    for name in ("REJOINDER_WRITE_KEY", "REJOINDER_READ_KEY", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "a secret of the server")
    monkeypatch.setenv("TMPDIR", os.environ.get("TMPDIR", "/tmp"))
    monkeypatch.setattr(files, "_START", f"import sys; sys.path[:] = {{path!r}}; {SHOW.replace('{', '{{').replace('}', '}}')}")
    got = set(read("a.txt", "hello")[1])
    assert {"PATH", "TMPDIR", "OMP_NUM_THREADS"} <= got
    assert not [name for name in got if any(part in name for part in ("KEY", "PASSWORD", "TOKEN", "SECRET"))]


READ = "import sys; sys.path[:] = {path!r}; from rejoinder.serving import files; files._read = lambda _: %s; files.main()"


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (READ % "(_ for _ in ()).throw(MemoryError)", "takes more than"),
        ("import os; os.kill(os.getpid(), 9)  # {path}", "takes more than"),
        (READ % "1 / 0", "an internal error"),
        ("raise SystemExit(1)  # {path}", "an internal error"),
    ],
)
def test_only_what_exceeds_the_limits_is_told_so(monkeypatch, caplog, start, said):
    monkeypatch.setattr(files, "_START", start)
    with pytest.raises(InputError, match=said):
        read("a.txt", "hello")
    is_logged = "the reader of a file failed" in caplog.text
    assert is_logged == (said == "an internal error")


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")
@pytest.mark.parametrize(("megabytes", "links"), [(16, 60_000), (24, 120_000), (24, 200_000), (48, 200_000)])
def test_a_file_that_takes_all_memory_is_told_so(monkeypatch, megabytes, links):
    """Until its process has none to raise another error."""
    monkeypatch.setattr(files, "MEMORY", megabytes << 20)
    limited = f"from rejoinder.serving import files; files.MEMORY = {megabytes} << 20; files.main()"
    monkeypatch.setattr(files, "_START", f"import sys; sys.path[:] = {{path!r}}; {limited}")
    with pytest.raises(InputError, match=rf"^x.md takes more than 10 seconds or {megabytes} MiB of memory"):
        read("x.md", "[a](" * links)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_reading_ends_with_the_request_that_waits_for_it(monkeypatch):
    monkeypatch.setattr(files, "_START", "import time; time.sleep(60)  # {path}")

    async def leave():
        task = asyncio.create_task(files.FileReader().read("a.txt", content("hello")))
        await asyncio.sleep(1)
        assert children() > before
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    before = children()
    asyncio.run(leave())
    assert children() <= before


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")
@pytest.mark.parametrize("what", ["bytearray(1 << 30)", "[0 for _ in iter(int, 1)]"])
def test_memory_and_processor_time_are_limited(what):
    code = f"from rejoinder.serving import files; files.SECONDS = 1; files.limit_resources(); {what}"
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, env=os.environ)
    assert done.returncode != 0
    assert time.monotonic() - start < 20


def test_the_server_answers_while_a_file_is_read(client, monkeypatch):
    monkeypatch.setattr(files, "SECONDS", 2)
    monkeypatch.setattr(files, "_START", "while True: pass  # {path}")
    server = client()
    said = {}
    reading = threading.Thread(
        target=lambda: said.update(
            answer=server.post("/v1/import", json={"name": "a.yml", "content": content(" " * 60_000)})
        )
    )
    reading.start()
    slowest = 0.0
    while reading.is_alive():
        start = time.monotonic()
        assert server.get("/health").status_code == 200
        slowest = max(slowest, time.monotonic() - start)
        time.sleep(0.05)
    assert said["answer"].status_code == 400
    assert "takes more than" in said["answer"].json()["error"]["message"]
    assert slowest < 2  # of a machine that has other work
