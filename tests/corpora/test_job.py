"""Building as a job of tasks: the engine changes nothing, what is finished is kept, bad lines have limits."""

from __future__ import annotations

import functools
import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from rejoinder.corpora import streaming
from rejoinder.corpora.build import build_data
from rejoinder.corpora.engine import LocalEngine
from rejoinder.corpora.example import SPLITS, read_examples
from rejoinder.corpora.job import Sizes
from rejoinder.corpora.lines import BadLineError, Reading
from rejoinder.corpora.work import work_folder
from rejoinder.errors import InputError
from tests.corpora.toy import TOY, ToySettings, toy_lines

ROOT = Path(__file__).parent.parent.parent


SMALL = Sizes(files=4_000, block=1_000, merged=4, partition=3_000, chunk=64, bucket=100, shard=150)
"""Pieces of a few examples, so that there are many of each."""
build = functools.partial(build_data, sizes=SMALL)
TINY = Sizes(files=77, block=333, merged=2, partition=999, chunk=7, bucket=33, shard=33)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """There are far more files here than in earnest."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Watched:
    """An engine that notes which work was done."""

    def __init__(self):
        self.done = Counter()

    def map(self, work, tasks):
        for task in tasks:
            self.done[work.func.__name__] += 1
            yield work(task)


def dialogues(path, start, stop, tail="end"):
    lines_ = (json.dumps({"turns": [f"{number} says", f"reply {number}", tail]}) for number in range(start, stop))
    path.write_text("".join(f"{line}\n" for line in lines_))
    return path


def streamed(folder):
    files = [dialogues(folder / f"{place}.jsonl", 40 * place, 40 * place + 55) for place in range(6)]
    return "jsonl", [*files[:4], f"test={files[4]}", f"valid={files[5]}", files[0]]


def scattered(folder):
    lines_ = toy_lines(150)
    halves = folder / "one.txt", folder / "two.txt.gz"
    halves[0].write_text("".join(f"{line}\n" for line in lines_[::2]))
    halves[1].write_bytes(gzip.compress("".join(f"{line}\n" for line in lines_[1::2]).encode()))
    test = folder / "test.txt"
    test.write_text("".join(f"{line}\n" for line in [*toy_lines(20, seed=1), *lines_[:40]]))
    return TOY, [*halves, f"test={test}"]


KINDS = {"streamed": streamed, "scattered": scattered}


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def pairs(folder, split=None):
    return [(example.context, example.response) for example in read_examples(folder, split)]


@pytest.fixture(scope="module")
def engines():
    with LocalEngine(1) as one, LocalEngine(2) as two, LocalEngine(3) as three:
        yield {1: one, 2: two, 3: three}


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_changes_nothing(tmp_path, engines, kind):
    source, inputs = KINDS[kind](tmp_path)
    one = build(source, inputs, tmp_path / "one")
    for processes in (2, 3):
        account = build(source, inputs, tmp_path / "more", engine=engines[processes])
        assert account == one
        assert contents(tmp_path / "more") == contents(tmp_path / "one")
    assert len(list((tmp_path / "one").glob("train-*.parquet"))) > 1
    assert not work_folder(tmp_path / "one").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_of_tasks_change_the_files_but_not_the_examples(tmp_path, kind):
    """By default there is one of everything here."""
    source, inputs = KINDS[kind](tmp_path)
    whole = build_data(source, inputs, tmp_path / "whole")
    assert sorted(contents(tmp_path / "whole"))[1:] == [f"{split}-00000.parquet" for split in sorted(SPLITS)]
    parts = build_data(source, inputs, tmp_path / "parts", sizes=TINY)
    if kind == "streamed":
        assert parts == whole
        assert pairs(tmp_path / "parts") == pairs(tmp_path / "whole")
    for split in SPLITS:
        assert parts.splits[split].read == whole.splits[split].read
    assert set(pairs(tmp_path / "parts")) == set(pairs(tmp_path / "whole"))
    assert len(pairs(tmp_path / "parts")) == len(pairs(tmp_path / "whole"))


def test_threads_meet_again(tmp_path):
    """Against all lines read at once."""
    source, inputs = scattered(tmp_path)
    settings, reading = ToySettings(shortest=9), Reading(history=1)
    account = build(source, inputs, tmp_path / "data", settings=settings, reading=reading)
    expected, left = Counter(), 0
    for lines_, part in ((toy_lines(150), None), ([*toy_lines(20, seed=1), *toy_lines(150)[:40]], "test")):
        threads = {}
        for line in lines_:
            thread, place, text = line.split(" ", 2)
            if len(text) >= 9:
                threads.setdefault(thread, {})[int(place)] = text
            else:
                left += 1
        for messages in threads.values():
            texts = [messages[place] for place in sorted(messages)]
            expected.update((tuple(texts[max(0, i - 2) : i]), texts[i], part or "") for i in range(1, len(texts)))
    assert set(pairs(tmp_path / "data")) == {(context, response) for context, response, _ in expected}
    assert sum(counts.read for counts in account.splits.values()) == expected.total()
    assert account.dropped == {"short message": left}
    assert account.lines == 600 + 80 + 40
    assert account.settings == {"shortest": 9}
    given = {(context, response) for context, response, part in expected if part}
    hashed = {(context, response) for context, response, part in expected if not part}
    assert given - hashed <= set(pairs(tmp_path / "data", "test"))


@pytest.mark.parametrize("kind", KINDS)
def test_of_copies_the_first_stays_wherever_they_are(tmp_path, kind):
    source, inputs = KINDS[kind](tmp_path)
    once = build(source, inputs, tmp_path / "once")
    twice = build(source, [*inputs, *inputs], tmp_path / "twice")
    assert len(set(pairs(tmp_path / "twice"))) == len(pairs(tmp_path / "twice"))
    for split in SPLITS:
        one, two = once.splits[split], twice.splits[split]
        assert two.read - two.kept == two.dropped.get("duplicate", 0)
        if kind == "streamed":
            assert (two.kept, two.read) == (one.kept, 2 * one.read)
    if kind == "streamed":
        assert pairs(tmp_path / "twice") == pairs(tmp_path / "once")


def test_copies_across_splits_stay_where_they_came_first(tmp_path):
    file = dialogues(tmp_path / "a.jsonl", 0, 30)
    account = build("jsonl", [f"test={file}", f"train={file}"], tmp_path / "data")
    assert (account.splits["test"].kept, account.splits["train"].kept) == (60, 0)
    assert pairs(tmp_path / "data", "train") == []
    assert account.splits["train"].dropped == {"duplicate": 60}
    assert account.inputs == [f"test={file}", f"train={file}"]


def test_given_parts_win_over_the_hash(tmp_path):
    one, two = dialogues(tmp_path / "one.jsonl", 0, 50), dialogues(tmp_path / "two.jsonl", 50, 100)
    build("jsonl", [f"valid={one}", two], tmp_path / "data")
    valid = {context[0] for context, _ in pairs(tmp_path / "data", "valid")}
    assert {f"{number} says" for number in range(50)} <= valid
    assert len(pairs(tmp_path / "data", "train")) > 60


def test_a_file_of_that_whole_name_is_no_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dialogues(Path("train=chats.jsonl"), 0, 100)
    account = build("jsonl", ["train=chats.jsonl"], "data")
    assert all(counts.kept for counts in account.splits.values())
    with pytest.raises(InputError, match=r"^test\.jsonl does not exist; check the name$"):
        build("jsonl", ["train=test.jsonl"], "data")
    with pytest.raises(InputError, match=r"^trian=chats\.jsonl does not exist.* train, valid or test"):
        build("jsonl", ["trian=chats.jsonl"], "data")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 100, 10_000])
def test_a_limit_is_the_first_of_what_there_is(tmp_path, kind, limit):
    source, inputs = KINDS[kind](tmp_path)
    build(source, inputs, tmp_path / "all")
    account = build(source, inputs, tmp_path / "few", limit=limit)
    kept = pairs(tmp_path / "few")
    assert len(kept) == min(limit, len(pairs(tmp_path / "all")))
    assert len(kept) == sum(counts.kept for counts in account.splits.values())
    assert set(kept) <= set(pairs(tmp_path / "all"))
    if kind == "streamed":
        for split in SPLITS:
            few = pairs(tmp_path / "few", split)
            assert few == pairs(tmp_path / "all", split)[: len(few)]


def test_mixed_candidates_are_refused_wherever_they_are(tmp_path):
    one, two = dialogues(tmp_path / "one.jsonl", 0, 90), tmp_path / "two.jsonl"
    two.write_text('{"context": ["a"], "candidates": ["b", "c"], "label": 0, "thread": "x"}\n')
    with pytest.raises(InputError, match="has candidates and the ones before it have none"):
        build("jsonl", [one, two], tmp_path / "data")
    with pytest.raises(InputError, match="some examples of the train part have candidates and some have none"):
        build_data("jsonl", [one, two], tmp_path / "data", sizes=TINY)


def bad_files(folder):
    for place in range(3):
        file = dialogues(folder / f"{place}.jsonl", 100 * place, 100 * place + 100)
        file.write_text(file.read_text() + "oops\n" * 4)
    return sorted(folder.glob("*.jsonl"))


@pytest.mark.parametrize("processes", [1, 2])
def test_bad_lines_count_over_all_processes(tmp_path, engines, processes):
    files, faults = bad_files(tmp_path), []
    reading = Reading(skip_bad=True, max_bad=12, on_fault=faults.append)
    account = build("jsonl", files, tmp_path / "data", reading=reading, engine=engines[processes])
    assert account.bad_lines == reading.bad_lines == len(faults) == 12
    assert account.lines == 312
    assert account.faults == faults[:10]
    reading = Reading(skip_bad=True, max_bad=11)
    with pytest.raises(InputError, match=r"more than 11 bad lines, the first: .*0\.jsonl:101: not JSON.*--max-bad"):
        build("jsonl", files, tmp_path / "other", reading=reading, engine=engines[processes])


def test_what_was_read_before_a_bad_line_is_used_when_it_is_skipped(tmp_path):
    files = bad_files(tmp_path)
    files[0].write_text("\n".join(files[0].read_text().splitlines()[:100]))
    with pytest.raises(BadLineError, match=r"1\.jsonl:101: not JSON"):
        build("jsonl", files, tmp_path / "data")
    engine = Watched()
    account = build("jsonl", files, tmp_path / "data", reading=Reading(skip_bad=True), engine=engine)
    assert (account.bad_lines, account.lines) == (8, 308)
    # And the other way round: what was skipped is not forgiven.
    with pytest.raises(BadLineError, match=r"1\.jsonl:101: not JSON"):
        build("jsonl", files, tmp_path / "data")


class StopError(Exception):
    """Stops a job from outside."""


class Stopping(Watched):
    """An engine that stops after some tasks."""

    def __init__(self, after):
        super().__init__()
        self._after = after

    def map(self, work, tasks):
        for result in super().map(work, tasks):
            if self.done.total() > self._after:
                raise StopError
            yield result


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_job_goes_on_wherever_it_was(tmp_path, kind):
    source, inputs = KINDS[kind](tmp_path)
    counting = Watched()
    account = build(source, inputs, tmp_path / "whole", engine=counting)
    total = counting.done.total()
    for after in sorted({0, 1, 2, total // 4, total // 2, 3 * total // 4, total - 2, total - 1}):
        with pytest.raises(StopError):
            build(source, inputs, tmp_path / "data", engine=Stopping(after))
        assert work_folder(tmp_path / "data").exists()
        assert build(source, inputs, tmp_path / "data") == account
        assert contents(tmp_path / "data") == contents(tmp_path / "whole")
        assert not work_folder(tmp_path / "data").exists()


def test_finished_tasks_are_not_done_again(tmp_path, monkeypatch):
    source, inputs = streamed(tmp_path)
    with pytest.raises(StopError):
        build(source, inputs, tmp_path / "data", engine=Stopping(3))
    read = []
    real = streaming.write_chunks
    monkeypatch.setattr(streaming, "write_chunks", lambda *given: read.append(given[2]) or real(*given))
    build(source, inputs, tmp_path / "data")
    assert "read-000000" not in read
    assert len(read) == len(set(read)) > 1


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


def test_a_second_process_is_kept_out(tmp_path):
    source, inputs = streamed(tmp_path)

    class Nested(Watched):
        def map(self, work, tasks):
            with pytest.raises(InputError, match="another process is at the same work"):
                build(source, inputs, tmp_path / "data")
            return super().map(work, tasks)

    build(source, inputs, tmp_path / "data", engine=Nested())
    assert pairs(tmp_path / "data")


def test_a_folder_of_others_in_the_place_of_the_work_is_not_touched(tmp_path):
    source, inputs = streamed(tmp_path)
    other = work_folder(tmp_path / "data")
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"\.data\.work is in the way and not ours to remove"):
        build(source, inputs, tmp_path / "data")
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]


def test_progress_adds_up_to_the_size_of_the_input(tmp_path):
    for kind, make in KINDS.items():
        (tmp_path / kind).mkdir()
        source, inputs = make(tmp_path / kind)
        steps = []
        build(source, inputs, tmp_path / kind / "data", progress=steps.append)
        sizes = [Path(str(path).removeprefix("test=").removeprefix("valid=")).stat().st_size for path in inputs]
        assert sum(steps) == sum(sizes)
        assert len(steps) > 5
        assert min(steps) > 0


def test_a_pipe_is_read_here_and_never_taken_up_again(tmp_path, engines):
    pipe = tmp_path / "chats.jsonl"
    os.mkfifo(pipe)
    text = dialogues(tmp_path / "same.jsonl", 0, 100).read_text()
    for _ in range(2):
        writer = subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'w').write({text!r})"])
        build("jsonl", [pipe], tmp_path / "data", engine=engines[2])
        writer.wait()
    assert len(pairs(tmp_path / "data")) == 200


SCRIPT = """
    import sys, time, os, resource
    from pathlib import Path
    from rejoinder.corpora.build import build_data
    from rejoinder.corpora.corpus import Corpus
    from rejoinder.corpora.engine import LocalEngine
    from rejoinder.corpora.jsonl import read_jsonl
    from rejoinder.corpora.job import Sizes

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
                build_data(corpus, files, folder / "data", engine=engine, sizes=Sizes(files=1))
        except KeyboardInterrupt:
            sys.exit(130)
"""


def start(folder, *arguments):
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    (folder / "pids").mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, script, folder, *arguments], start_new_session=True, cwd=ROOT)


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    return None


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
