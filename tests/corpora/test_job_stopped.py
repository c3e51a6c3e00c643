"""Jobs that are stopped: what is finished is kept, nothing is left running, and the same job goes on."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from pathlib import Path

import pytest

from rejoinder.corpora.pipeline.work_folder import work_folder
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError
from tests.corpora.jobs import (
    KINDS,
    Watched,
    alive,
    build,
    contents,
    dialogues,
    pairs,
    scattered,
    streamed,
    wait_for,
)

ROOT = Path(__file__).parent.parent.parent


class StopError(Exception):
    """Stops a job from outside."""


class Stopping(Watched):
    def __init__(self, after, processes=1):
        super().__init__(processes)
        self._after = after

    def map(self, work, tasks, _on_wait=None):
        for result in super().map(work, tasks):
            if self.done.total() > self._after:
                raise StopError
            yield result


@pytest.mark.parametrize(
    ("kind", "processes"),
    [("streamed", 1), ("scattered", 1), ("scattered", 4), ("scattered", None)],
)
def test_a_stopped_job_goes_on_wherever_it_was(tmp_path, kind, processes):
    """With any engine: what one has finished another one uses."""
    source, inputs = KINDS[kind](tmp_path)
    counting = Watched(processes)
    account = build(source, inputs, tmp_path / "whole", engine=counting)
    total = counting.done.total()
    for after in sorted({0, 1, total // 3, 2 * total // 3, total - 1}):
        with pytest.raises(StopError):
            build(source, inputs, tmp_path / "data", engine=Stopping(after, processes))
        # What four processes do for a file together is kept when all of it is done.
        assert work_folder(tmp_path / "data").exists() or processes == 4
        assert build(source, inputs, tmp_path / "data") == account
        assert contents(tmp_path / "data") == contents(tmp_path / "whole")
        assert not work_folder(tmp_path / "data").exists()


@pytest.mark.parametrize("processes", [1, 2, None])
def test_a_result_is_kept_for_each_file_and_each_partition_and_none_for_blocks(tmp_path, processes):
    source, inputs = scattered(tmp_path)
    counting = Watched(processes)
    build(source, inputs, tmp_path / "whole", engine=counting)
    with pytest.raises(StopError):
        build(source, inputs, tmp_path / "data", engine=Stopping(counting.done.total() - 1, processes))
    work = work_folder(tmp_path / "data")
    kinds = Counter(path.name.partition("-")[0] for path in (work / "done").iterdir())
    assert set(kinds) == {"file", "assembled", "duplicates"}
    assert kinds["file"] == len(inputs)
    assert not list(work.glob("blocks/*"))  # they are in runs


@pytest.mark.parametrize("content", [b"", b"{", b'{"runs": 3}'], ids=["empty", "half", "another"])
def test_a_result_that_cannot_be_read_is_made_again(tmp_path, content):
    source, inputs = scattered(tmp_path)
    build(source, inputs, tmp_path / "whole")
    with pytest.raises(StopError):
        build(source, inputs, tmp_path / "data", engine=Stopping(5))
    for file in (work_folder(tmp_path / "data") / "done").iterdir():
        file.write_bytes(content)
    build(source, inputs, tmp_path / "data")
    assert contents(tmp_path / "data") == contents(tmp_path / "whole")


def test_what_is_left_of_a_file_that_was_half_scattered_is_removed(tmp_path):
    source, inputs = scattered(tmp_path)
    build(source, inputs, tmp_path / "whole")
    with pytest.raises(StopError):
        build(source, inputs, tmp_path / "data", engine=Stopping(3, 2))  # one block of the last file is done
    work = work_folder(tmp_path / "data")
    assert list(work.glob("blocks/*"))

    class Looking(Watched):
        def map(self, work_, tasks, on_wait=None):
            assert not list(work.glob("blocks/*"))
            return super().map(work_, tasks, on_wait)

    build(source, inputs, tmp_path / "data", engine=Looking())
    assert contents(tmp_path / "data") == contents(tmp_path / "whole")


def test_no_thread_watches_a_job(tmp_path, monkeypatch):
    def start(thread):
        raise AssertionError(thread.name)

    monkeypatch.setattr(threading.Thread, "start", start)
    source, inputs = scattered(tmp_path)
    steps = []
    build(source, inputs, tmp_path / "data", progress=steps.append)
    assert len(steps) > 3


def test_changed_input_or_settings_begin_anew(tmp_path):
    source, inputs = streamed(tmp_path)
    for change in ("nothing", "file", "history"):
        with pytest.raises(StopError):
            build(source, inputs, tmp_path / "data", engine=Stopping(3))
        done = work_folder(tmp_path / "data") / "done"
        before = {path.name: path.stat().st_mtime_ns for path in done.iterdir()}
        assert before
        if change == "file":
            dialogues(inputs[0], 500, 555, tail="other")
        reading = Reading(history=3 if change == "history" else 10)
        with pytest.raises(StopError):
            build(source, inputs, tmp_path / "data", reading=reading, engine=Stopping(0))
        after = {path.name: path.stat().st_mtime_ns for path in done.iterdir()}
        assert (before.items() <= after.items()) == (change == "nothing")
    account = build(source, inputs, tmp_path / "data")
    assert ("500 says",) in {context for context, _ in pairs(tmp_path / "data")}
    assert account.history == 10


def test_a_stop_while_the_folder_is_put_in_place(tmp_path, monkeypatch):
    source, inputs = streamed(tmp_path)
    build(source, inputs, tmp_path / "whole")
    real, calls = Path.rename, []

    def rename(self, target):
        calls.append(self)
        if self.parent.name == "shards" and len([path for path in calls if path.parent.name == "shards"]) == 3:
            raise StopError
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(StopError):
        build(source, inputs, tmp_path / "data")
    monkeypatch.undo()
    assert not (tmp_path / "data").exists()
    build(source, inputs, tmp_path / "data")
    assert contents(tmp_path / "data") == contents(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["data", "whole"]


def test_ctrl_c_while_the_work_folder_is_removed_does_not_stop_a_finished_job(tmp_path, monkeypatch):
    source, inputs = streamed(tmp_path)
    real, calls = shutil.rmtree, []

    def rmtree(path, *arguments, **options):
        if "..data.work." in str(path):
            calls.append(path)
            if len(calls) == 1:
                raise KeyboardInterrupt
        real(path, *arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    account = build(source, inputs, tmp_path / "data")
    assert len(calls) == 2
    assert len(pairs(tmp_path / "data")) == sum(each.kept for each in account.splits.values())
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["data"]


def test_a_full_disk_names_the_work_folder(tmp_path, monkeypatch):
    """/dev/full stands for the file of a task's result."""
    real = Path.write_bytes

    def full(path, data):
        is_result = path.parent.name == "done"
        return real(Path("/dev/full") if is_result else path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    source, inputs = streamed(tmp_path)
    with pytest.raises(OSError, match="No space") as caught:
        build(source, inputs, tmp_path / "data")
    assert caught.value.filename.startswith(str(work_folder(tmp_path / "data")))


def test_a_second_process_is_kept_out(tmp_path):
    source, inputs = streamed(tmp_path)

    class Nested(Watched):
        def map(self, work, tasks, _on_wait=None):
            with pytest.raises(InputError, match="is being made by another process"):
                build(source, inputs, tmp_path / "data")
            return super().map(work, tasks)

    build(source, inputs, tmp_path / "data", engine=Nested())
    assert pairs(tmp_path / "data")


SCRIPT = """
    import sys, time, os, resource
    from pathlib import Path
    from rejoinder.corpora.pipeline.build import build_data
    from rejoinder.corpora.corpus import Corpus
    from rejoinder.engine import LocalEngine
    from rejoinder.corpora.forms.formats import read_jsonl
    from rejoinder.corpora.pipeline.chunks import ChunkSizes

    def slow(path, reading, settings):
        (Path(path).parent / "pids" / str(os.getpid())).touch()
        for example in read_jsonl(path, reading):
            if "hang" in sys.argv and path.name >= "3":
                time.sleep(60)
            yield example

    if __name__ == "__main__":
        corpus = Corpus("slow", "", "", "", "", "", read=slow)
        folder = Path(sys.argv[1])
        try:
            with LocalEngine(int(sys.argv[2])) as engine:
                files = sorted(folder.glob("*.jsonl"))
                build_data(corpus, files, folder / "data", engine=engine, sizes=ChunkSizes(files=1))
        except KeyboardInterrupt:
            sys.exit(130)
"""


def start(folder, *arguments):
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    (folder / "pids").mkdir(exist_ok=True)
    command = [sys.executable, script, folder, *arguments]
    with (folder / "errors").open("w") as errors:
        return subprocess.Popen(command, start_new_session=True, cwd=ROOT, stderr=errors)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_half_way_and_run_again(tmp_path, how):
    """A real process with two workers, killed when three of six files are read; nothing is left running."""
    for place in range(6):
        dialogues(tmp_path / f"{place}.jsonl", 100 * place, 100 * place + 100)
    process = start(tmp_path, "2", "hang")
    done = work_folder(tmp_path / "data") / "done"
    assert wait_for(lambda: done.is_dir() and len(list(done.iterdir())) == 3)
    assert wait_for(lambda: len(list((tmp_path / "pids").iterdir())) == 2)
    (os.kill if how == signal.SIGKILL else os.killpg)(process.pid, how)
    assert process.wait(20) == (130 if how == signal.SIGINT else -how)
    workers = [int(path.name) for path in (tmp_path / "pids").iterdir()]
    assert wait_for(lambda: not any(map(alive, workers)))
    assert "Traceback" not in (tmp_path / "errors").read_text()
    times = {path.name: path.stat().st_mtime_ns for path in done.iterdir()}
    assert not (tmp_path / "data").exists()
    # The same job again, as far as reading; the finished tasks are the same files as before.
    again = start(tmp_path, "1", "hang")
    assert wait_for(lambda: again.pid in [int(path.name) for path in (tmp_path / "pids").iterdir()])
    assert {path.name: path.stat().st_mtime_ns for path in done.iterdir()} == times
    again.kill()
    again.wait()
    assert start(tmp_path, "2").wait(60) == 0
    assert len(pairs(tmp_path / "data")) == 1200
    assert not work_folder(tmp_path / "data").exists()
