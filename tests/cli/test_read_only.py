"""A read-only file system: what would change something is refused in words, and the rest works."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

import rejoinder
from rejoinder.retrieval.index import Index

WAYS = ["index add replies.index new.txt", "index delete replies.index 0", "learn replies.index",
        "feedback replies.index --set days=9"]  # fmt: skip


def mounted(folder, commands):
    """Run commands in a folder that is mounted read-only for them alone; None: the system cannot."""
    script = textwrap.dedent(
        f"""
        mount --bind "{folder}" "{folder}" || exit 77
        mount -o remount,bind,ro "{folder}" || exit 77
        cd "{folder}"
        """
    )
    for command in commands:
        script += f'"{sys.executable}" -m rejoinder {command} 2>&1 >/dev/null | tail -n 1\n'
    if shutil.which("unshare") is None or os.getuid():
        return None
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script], capture_output=True, text=True, check=False
    )
    return None if done.returncode == 77 or "unshare" in done.stderr else done.stdout.splitlines()


def test_changes_are_refused_in_words_with_paths_as_they_were_given(tmp_path):
    Index.build(rejoinder.load("convert-small"), ["Hello!", "Bye."], tmp_path / "replies.index")
    (tmp_path / "new.txt").write_text("One more.\n")
    told = mounted(tmp_path, WAYS)
    if told is None:
        pytest.skip("needs the right to mount")
    for command, line in zip(WAYS, told, strict=True):
        assert line.startswith("rejoinder: error: Read-only file system: replies.index"), (
            command,
            line,
        )
        assert str(tmp_path) not in line


def test_a_server_over_a_read_only_index_says_that_it_may_not_write(tmp_path, monkeypatch):
    from starlette.testclient import TestClient

    from rejoinder import files
    from rejoinder.serving.worker.sources import Sources
    from rejoinder.serving.app import make_app
    from rejoinder.serving.server_settings import ServerSettings
    from rejoinder.serving.worker.computing import Computing

    Index.build(rejoinder.load("convert-small"), ["Hello!", "Bye."], tmp_path / "index")
    sources = Sources(index=tmp_path / "index")

    def refuse(*_, **__):
        raise OSError(30, os.strerror(30), str(tmp_path))

    computing = Computing(sources)
    computing.open()
    app = make_app(ServerSettings(sources=sources), computing)
    requests = [
        ("POST", "/v1/candidates", {"candidates": ["new"]}),
        ("POST", "/v1/import", {"name": "a.txt", "content": "bmV3Cg=="}),
        ("POST", "/v1/edits", {"replace": {"position": 0, "text": "new"}}),
        ("POST", "/v1/examples", {"position": 0, "examples": ["new"]}),
        ("DELETE", "/v1/candidates/0", None),
        ("POST", "/v1/feedback", {"messages": ["Hi!"], "offered": [0]}),
    ]
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        import filelock

        monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
        monkeypatch.setattr(files.tempfile, "mkstemp", refuse)
        for method, path, body in requests:
            answer = client.request(method, path, json=body)
            assert (answer.status_code, "may not write" in answer.text) == (403, True), (
                path,
                answer.text,
            )
            assert str(tmp_path) not in answer.text
        assert client.get("/ready").status_code == 200
        assert json.loads(client.get("/v1/edits").text) == {"changes": []}
