"""Killed at any write, rename or removal: the same command then goes on, and nothing is left lying about."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rejoinder.cli import main
from rejoinder.retrieval.index import Index
from tests.cli.test_outputs import make_place
from tests.corpora.jobs import build, scattered, streamed

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks processes and kills them")

KILLED = 137
NEVER = 1 << 30
EVENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate", "ctypes.dlsym")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
Command = str | Callable[[Path], object]
COMMANDS: dict[str, Command] = {
    "train": "train recipe.toml --data examples -o OUT",
    "data": lambda out: build(*streamed(Path()), out),
    "data, scattered": lambda out: build(*scattered(Path()), out),
    "corpus": "corpus corpus.toml dialogues -o OUT --no-evaluation",
    "index": "index MODEL replies.txt -o OUT",
    "index --append": "index MODEL replies.txt -o OUT --append",
    "index --delete": "index -o OUT --delete 1",
    "index --overwrite": "index MODEL replies.txt -o OUT --overwrite",
    "intents": "intents train MODEL intents.csv -o OUT",
    "export --quantized": "export MODEL --quantized -o OUT",
    "export --sentence-transformers": "export MODEL --sentence-transformers -o OUT",
    "export --overwrite": "export MODEL --quantized -o OUT --overwrite",
}
BEFORE = {  # what stands there first
    "index --append": "index MODEL replies.txt -o OUT",
    "index --delete": "index MODEL replies.txt -o OUT",
    "index --overwrite": "index MODEL more.txt -o OUT",
    "export --overwrite": "export MODEL --quantized -o OUT",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_place(tmp_path_factory.mktemp("kills"))


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
    if not isinstance(line, str):
        line(out)
        return 0
    sys.argv = ["rejoinder", *(str(out) if word == "OUT" else word for word in line.split())]
    try:
        main()
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
    timed += ["config.json", "README.md"] if (folder / "out" / "classifier.safetensors").exists() else []
    files = [path for path in folder.rglob("*") if path.is_file() and "tensorboard" not in path.parts]
    found = ("" if path.name in timed else hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    return {str(path.relative_to(folder)): digest for path, digest in zip(files, found, strict=True)}


def check(name: str, tmp_path: Path, choose: Callable[[int], Sequence[int]]) -> None:
    """Kill a command at some of its changes, and run it again each time."""
    line, before = COMMANDS[name], tmp_path / "before"
    before.mkdir()
    if name in BEFORE:
        code, _, said = run(BEFORE[name], before / "out")
        assert code == 0, said
    shutil.copytree(before, tmp_path / "warm")
    assert run_here(line, tmp_path / "warm" / "out") == 0  # all libraries are loaded now, and need not be each time
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
        if done and name in ("index --append", "index --delete"):  # killed when all was done: it is done once more
            assert code == (0 if "append" in name else 2), (n, said)
            continue
        if done and code == 2:  # killed when all was done, but for a lock
            assert "--overwrite" in said, (n, said)
            out.with_name(".out.lock").unlink()
        else:
            assert code == 0, (n, said)
        assert digests(tmp_path / f"{n}") == whole, n
        shutil.rmtree(tmp_path / f"{n}")


@pytest.mark.parametrize("name", ["train", "data", "corpus", "index --append", "intents", "export --quantized"])
def test_killed_in_the_middle(place, tmp_path, monkeypatch, name):
    """One command of each family, once; all of them, everywhere, in the slow test below."""
    monkeypatch.chdir(place)
    check(name, tmp_path, lambda total: [total // 2])


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_everywhere(place, tmp_path, monkeypatch, name):
    monkeypatch.chdir(place)
    check(name, tmp_path, lambda total: range(0, total, total // 150 + 1))
