"""Killed at any write, rename or removal: the same command then goes on, and nothing is left lying about."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest

from rejoinder.cli.start import main
from rejoinder.cli.shell import guarded
from rejoinder.retrieval.index import Index
from tests.cli.test_outputs import make_place
from tests.corpora.jobs import build, scattered, streamed
from tests.retrieval.conftest import HashEncoder
from workshop.corpus.build import build_corpus
from workshop.corpus.plan import load_corpus_plan

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="forks processes and kills them"
)

KILLED = 137
NEVER = 1 << 30
EVENTS = (
    "open",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.chmod",
    "os.truncate",
    "ctypes.dlsym",
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
Command = str | Callable[[Path], object]
COMMANDS: dict[str, Command] = {
    "train": "train recipe.toml --data examples -o OUT",
    "data": lambda out: build(*streamed(Path()), out),
    "data, scattered": lambda out: build(*scattered(Path()), out),
    "corpus": lambda out: guarded(build_corpus)(load_corpus_plan("corpus.toml"), "dialogues", out),
    "index build": "index build MODEL replies.txt -o OUT",
    "index add": "index add OUT replies.txt",
    "index delete": "index delete OUT 1",
    "index compact": "index compact OUT",
    "index build --overwrite": "index build MODEL replies.txt -o OUT --overwrite",
    "intents": "intents train MODEL intents.csv -o OUT",
    "export --to quantized": "export MODEL --to quantized -o OUT",
    "export --to sentence-transformers": "export MODEL --to sentence-transformers -o OUT",
    "export --overwrite": "export MODEL --to quantized -o OUT --overwrite",
}
BEFORE: dict[str, Command] = {  # what stands there first
    "index add": "index build MODEL replies.txt -o OUT",
    "index delete": "index build MODEL replies.txt -o OUT",
    "index compact": lambda out: changed_index(out),
    "index build --overwrite": "index build MODEL more.txt -o OUT",
    "export --overwrite": "export MODEL --to quantized -o OUT",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_place(tmp_path_factory.mktemp("kills"))


def changed_index(out: Path) -> None:
    """Leave an index of several segments, some replies of which are gone."""
    for words in ("build MODEL replies.txt -o OUT", "add OUT replies.txt", "delete OUT 1"):
        assert run_here(f"index {words}", out) == 0


def is_write(event: str, arguments: tuple[Any, ...], root: str) -> bool:
    """Whether something below `root` is about to be changed."""
    if event not in EVENTS:
        return False
    if event == "ctypes.dlsym":  # rename, for two names at once
        return arguments[1] == "renameat2"
    if event == "open" and not arguments[2] & WRITING:
        return False
    return isinstance(arguments[0], str | os.PathLike) and os.fspath(arguments[0]).startswith(root)


def run_here(line: Command, out: Path) -> int:
    try:
        if isinstance(line, str):
            words = (str(out) if word == "OUT" else word for word in line.split())
            sys.argv = ["rejoinder", *words]
            main()
        else:
            line(out)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def run(line: Command, out: Path, kill_at: int = NEVER) -> tuple[int, int, str]:
    """Run a command in a process that is killed before its n-th change of a file: exit code, changes, what it said."""
    root, counted, said = str(out.parent), out.parent.parent / "count", out.parent.parent / "said"
    if child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, int(counted.read_text() or 0), said.read_text()
    changes = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        if is_write(event, arguments, root):
            if changes == kill_at:
                os._exit(KILLED)
            changes += 1

    code = 1
    try:
        with counted.open("w") as count, said.open("w") as text:
            os.dup2(text.fileno(), 1)
            os.dup2(text.fileno(), 2)
            sys.stdout = sys.stderr = text
            sys.addaudithook(watch)
            code = run_here(line, out)
            count.write(str(changes))
    except BaseException:  # noqa: BLE001 (nothing may go on in this process)
        said.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def digests(folder: Path) -> dict[str, str]:
    """Digests of the files of a folder and beside it; of a run without what tells the time."""
    timed = ["metrics.jsonl", "summary.json", "last.safetensors"]
    timed += (
        ["config.json", "README.md"] if (folder / "out" / "classifier.safetensors").exists() else []
    )
    files = [
        path for path in folder.rglob("*") if path.is_file() and "tensorboard" not in path.parts
    ]
    found = (
        "" if path.name in timed else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    )
    return {
        str(path.relative_to(folder)): digest for path, digest in zip(files, found, strict=True)
    }


def check(name: str, tmp_path: Path, choose: Callable[[int], Sequence[int]]) -> None:
    """Kill a command at some of its changes, and run it again each time."""
    line, before = COMMANDS[name], tmp_path / "before"
    before.mkdir()
    if name in BEFORE:
        code, _, said = run(BEFORE[name], before / "out")
        assert code == 0, said
    shutil.copytree(before, tmp_path / "warm")
    # all libraries are loaded now, and need not be each time
    assert run_here(line, tmp_path / "warm" / "out") == 0
    shutil.copytree(before, tmp_path / "whole")
    code, total, said = run(line, tmp_path / "whole" / "out")
    assert code == 0, said
    whole = digests(tmp_path / "whole")
    for n in choose(total):
        shutil.copytree(before, tmp_path / f"{n}")
        out = tmp_path / f"{n}" / "out"
        assert run(line, out, n)[0] == KILLED
        if name in BEFORE and "export" not in name:
            found = Index.open(out)  # at any moment
            done = found.fingerprint == Index.open(tmp_path / "whole" / "out").fingerprint
        else:
            done = out.exists() and digests(out.parent).items() >= whole.items()
        code, _, said = run(line, out)
        # killed when all was done: it is done once more
        if done and name in ("index add", "index delete"):
            assert code == (0 if name == "index add" else 2), (n, said)
            continue
        if done and code == 2:  # killed when all was done, but for a lock
            assert "--overwrite" in said, (n, said)
            out.with_name(".out.lock").unlink()
        else:
            assert code == 0, (n, said)
        assert digests(tmp_path / f"{n}") == whole, n
        shutil.rmtree(tmp_path / f"{n}")


@pytest.mark.parametrize(
    "name", ["train", "data", "corpus", "index add", "intents", "export --to quantized"]
)
def test_killed_in_the_middle(place, tmp_path, monkeypatch, name):
    """One command of each family, once; all of them, everywhere, in the slow test below."""
    monkeypatch.chdir(place)
    check(name, tmp_path, lambda total: [total // 2])


def change_until_killed(index: Index, seed: int, said: TextIO) -> None:
    """Add, delete and compact at random; say before each change what is to come, and after it that it is done."""
    chance = random.Random(seed)
    for number in itertools.count():
        present = [position for position, _ in index]
        kind = chance.choice(["add", "add", "delete", "compact"]) if present else "add"
        texts = (
            [f"{seed}/{number}/{i}" for i in range(chance.randint(1, 5))] if kind == "add" else []
        )
        gone = (
            chance.sample(present, min(len(present), chance.randint(1, 3)))
            if kind == "delete"
            else []
        )
        print(json.dumps([texts, gone]), file=said, flush=True)
        if kind == "add":
            index.add(texts)
        elif kind == "delete":
            index.delete(gone)
        else:
            index.compact()
        print(json.dumps("done"), file=said, flush=True)


@pytest.mark.slow
def test_a_hundred_kills_at_random_moments_lose_nothing_acknowledged(tmp_path):
    encoder, left, chance, said, end = HashEncoder(), {}, random.Random(0), tmp_path / "said", 0
    Index.build(encoder, [], tmp_path / "index")
    unsaid = 0
    for seed in range(100):
        said.write_text("")  # of the child before, should this one be killed at once
        if (child := os.fork()) == 0:
            try:
                with said.open("w") as file:
                    change_until_killed(Index.open(tmp_path / "index", encoder), seed, file)
            finally:
                os._exit(1)
        time.sleep(chance.uniform(0.02, 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        index = Index.open(tmp_path / "index", encoder, verify=True)
        found = {position: candidate.text for position, candidate in index}
        lines = [json.loads(line) for line in said.read_text().splitlines()]
        for number, (texts, gone) in enumerate(
            changes := [line for line in lines if line != "done"]
        ):
            after = {at: text for at, text in left.items() if at not in gone} | dict(
                enumerate(texts, end)
            )
            if number == len(changes) - 1 and lines[-1] != "done" and found == left:
                unsaid += 1  # killed before it was done
                break
            left, end = after, end + len(texts)
        assert found == left, seed
        assert index.manifest.end == end
    assert 10 < unsaid < 100, "some were in the middle"


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_everywhere(place, tmp_path, monkeypatch, name):
    monkeypatch.chdir(place)
    check(name, tmp_path, lambda total: range(0, total, total // 150 + 1))
