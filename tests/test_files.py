"""Outputs are whole or absent, and what stood there before survives every failure."""

import errno
import json
import os
import stat
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from rejoinder import files
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, atomic_folder
from rejoinder.paths import name_path_on_enospc
from rejoinder.folder_kinds import Kind, check_replaceable

MARKER = "config.json"
KIND = Kind(
    "a model", MARKER, lambda config: config["ours"], (MARKER, "only-in-the-old-one", "deep/*.bin")
)
FULL = OSError(errno.ENOSPC, "No space left on device")
FAILURES = [KeyboardInterrupt(), FULL, ValueError("a bug"), SystemExit(1)]
FAILING = pytest.mark.parametrize("failure", FAILURES, ids=lambda each: type(each).__name__)


@pytest.fixture(params=["exchange", "steps"])
def way(request, monkeypatch):
    """Both ways of putting a folder in another's place: at once (Linux), and in two steps (elsewhere)."""
    if request.param == "steps":
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    return request.param


def write_folder(path, content):
    with atomic_folder(path, KIND, overwrite=True) as part:
        (part / MARKER).write_text(marked(content))


def marked(content):
    return json.dumps({"ours": True, "content": content})


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def test_a_file_is_written_with_its_parents(tmp_path):
    with atomic_file(tmp_path / "a" / "b" / "file") as part:
        part.write_text("new")
        assert not (tmp_path / "a" / "b" / "file").exists()
    assert (tmp_path / "a" / "b" / "file").read_text() == "new"
    assert names(tmp_path / "a" / "b") == ["file"]


@FAILING
def test_a_failure_keeps_the_old_file(tmp_path, failure):
    (tmp_path / "file").write_text("old")
    with pytest.raises(type(failure)), atomic_file(tmp_path / "file") as part:  # noqa: PT012
        part.write_text("half")
        raise failure
    assert (names(tmp_path), (tmp_path / "file").read_text()) == (["file"], "old")


def test_a_full_disk_is_reported_for_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(OSError, match="No space") as caught, atomic_file(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path / "file")
    with (
        pytest.raises(OSError, match="No space") as caught,
        atomic_folder(tmp_path / "run", KIND) as folder,
    ):
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "weights"))
    assert caught.value.filename == str(tmp_path / "run")
    with (
        pytest.raises(OSError, match=r"No space .*'.*/model'"),
        atomic_folder(tmp_path / "model", KIND),
    ):
        raise RuntimeError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        )
    with pytest.raises(FileNotFoundError) as caught, atomic_file(tmp_path / "file"):
        (tmp_path / "input").read_text()
    assert caught.value.filename == str(tmp_path / "input"), (
        "an error about another file keeps its name"
    )


def test_names_that_cannot_be_written_to_are_refused(tmp_path):
    """Replacing /dev/null by an ordinary file would break the machine.

    Here a pipe stands for it.
    """
    path = tmp_path / os.fsdecode(b"q\xff")
    os.mkfifo(tmp_path / "pipe")
    for opened, said in (
        (atomic_folder(path, KIND), r"q\\udcff' is not a name in UTF-8"),
        (atomic_file(path), "is not a name in UTF-8"),
        (atomic_file(tmp_path / "pipe"), "is not a regular file"),
        (atomic_file(tmp_path), "is a folder"),
    ):
        with pytest.raises(InputError, match=said), opened:
            pass
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert names(tmp_path) == ["pipe"]


def test_windows_replaces_a_file_when_nobody_reads_it_any_more(tmp_path, monkeypatch):
    """Simulated: nothing of this was run on Windows."""
    replace, refusals = Path.replace, [PermissionError("in use")] * 3

    def replace_or_refuse(self, target):
        if refusals:
            raise refusals.pop()
        return replace(self, target)

    def write():
        with atomic_file(tmp_path / "x") as part:
            part.write_text("new")

    monkeypatch.setattr(Path, "replace", replace_or_refuse)
    monkeypatch.setattr(files, "_PAUSE", 0)
    with pytest.raises(PermissionError):
        write()
    monkeypatch.setattr(files, "_WINDOWS", True)
    write()
    assert not refusals
    assert (tmp_path / "x").read_text() == "new"


def test_a_umask_is_never_set(tmp_path, monkeypatch):
    """A file that another thread makes meanwhile would have that one."""

    def refused(mask):
        pytest.fail(f"umask set to {mask:o}")

    monkeypatch.setattr(os, "umask", refused)
    with atomic_file(tmp_path / "file"):
        pass
    with atomic_folder(tmp_path / "folder", KIND):
        pass


@pytest.mark.parametrize("status", ["/proc/self/status", "missing", "older"])
def test_modes_follow_the_umask(tmp_path_factory, tmp_path, monkeypatch, status):
    place = tmp_path_factory.mktemp("system")
    (place / "older").write_text("Name:\tpython\n")  # of Linux before 4.7
    monkeypatch.setattr(files, "_STATUS", place / status)
    monkeypatch.setattr(files, "_UMASK_AT_START", 0o027)
    old = os.umask(0o027)
    try:
        with atomic_file(tmp_path / "file") as part:
            part.write_text("")
        with atomic_folder(tmp_path / "folder", KIND) as part:
            (part / "deep").mkdir(mode=0o700)
            for name in ("a", "deep/a"):
                # as libraries that write through a temporary file leave theirs
                (part / name).touch(mode=0o600)
    finally:
        os.umask(old)
    for name, mode in {
        "file": 0o640,
        "": 0o750,
        "a": 0o640,
        "deep": 0o750,
        "deep/a": 0o640,
    }.items():
        path = tmp_path / name if name == "file" else tmp_path / "folder" / name
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "file").write_text("old")
    write_folder(tmp_path / "folder", "old")
    for name in ("file", "folder"):
        (tmp_path / f"{name}-link").symlink_to(name)
    with atomic_file(tmp_path / "file-link") as part:
        part.write_text("new")
    write_folder(tmp_path / "folder-link", "new")
    assert (tmp_path / "file").read_text() == "new"
    assert (tmp_path / "folder" / MARKER).read_text() == marked("new")
    assert (tmp_path / "file-link").is_symlink()
    assert (tmp_path / "folder-link").is_symlink()
    assert names(tmp_path) == ["file", "file-link", "folder", "folder-link"]


@pytest.mark.usefixtures("way")
def test_a_folder_replaces_its_predecessor_completely(tmp_path):
    path = tmp_path / "model"
    write_folder(path, "old")
    (path / "only-in-the-old-one").write_text("")
    write_folder(path, "new")
    assert (path / MARKER).read_text() == marked("new")
    assert (names(path), names(tmp_path)) == ([MARKER], ["model"])


@pytest.mark.usefixtures("way")
@FAILING
def test_a_failure_keeps_the_old_folder(tmp_path, failure):
    write_folder(tmp_path / "model", "old")
    with (  # noqa: PT012
        pytest.raises(type(failure)),
        atomic_folder(tmp_path / "model", KIND, overwrite=True) as part,
    ):
        (part / MARKER).write_text("half")
        raise failure
    assert (tmp_path / "model" / MARKER).read_text() == marked("old")
    assert names(tmp_path) == ["model"]


@FAILING
def test_a_failure_between_the_two_steps_brings_the_old_folder_back(tmp_path, monkeypatch, failure):
    """The old folder has been moved away and the new one is not in its place yet: Ctrl-C must not lose both."""
    write_folder(tmp_path / "model", "old")
    rename = Path.rename

    def interrupted(self, target):
        if self.suffix == ".part":
            raise failure
        return rename(self, target)

    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(type(failure)):
        write_folder(tmp_path / "model", "new")
    assert (tmp_path / "model" / MARKER).read_text() == marked("old")
    assert names(tmp_path) == ["model"]


def test_what_a_kill_between_the_two_steps_left_is_replaced_only_on_demand(tmp_path):
    write_folder(tmp_path / ".model.killed.old", "old")
    with pytest.raises(InputError, match="--overwrite"), atomic_folder(tmp_path / "model", KIND):
        pytest.fail("the old folder is lost")
    assert (tmp_path / "model" / MARKER).read_text() == marked("old")
    write_folder(tmp_path / "model", "new")
    assert (tmp_path / "model" / MARKER).read_text() == marked("new")
    assert names(tmp_path) == ["model"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps two names in one step")
def test_a_kill_at_any_moment_leaves_a_whole_folder(tmp_path):
    """A process that replaces a folder over and over is killed (-9); the folder is there and whole, every time."""
    code = f"""
        from pathlib import Path
        from rejoinder.files import atomic_folder
        from rejoinder.folder_kinds import Kind
        KIND = Kind("numbers", "a", lambda number: number > 0, ("a", "b"))
        number = 0
        while True:
            number += 1
            with atomic_folder({str(tmp_path / "model")!r}, KIND, overwrite=True) as part:
                (part / "a").write_text(str(number))
                (part / "b").write_text(str(number))
            print(number, flush=True)
    """
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(20)][-1] == b"20\n"
        process.kill()
        process.wait()
        process.stdout.close()
        assert (
            (tmp_path / "model" / "a").read_text() == (tmp_path / "model" / "b").read_text() != ""
        )


def test_something_else_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("ten years of work")
    with pytest.raises(InputError, match="not ours to replace"):
        write_folder(tmp_path / "thesis", "new")
    with pytest.raises(InputError, match="is a file"):
        check_replaceable(tmp_path / "thesis" / "chapter", KIND, overwrite=True)
    assert names(tmp_path / "thesis") == ["chapter"]
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "empty", "new")
    assert (tmp_path / "empty" / MARKER).read_text() == marked("new")


NOT_OURS = [b"[]", b"{}", b'{"ours": false}', b"7", b'{"ours": 1, "ours": 0}']
DAMAGED = [b"", b"{" * 100_000, b"\xff", b'{"ours": tr']


@pytest.mark.parametrize("content", [*NOT_OURS, *DAMAGED])
def test_a_marker_must_say_inside_that_the_folder_is_ours(tmp_path, content):
    (tmp_path / MARKER).write_bytes(content)
    said = (
        r"has no config\.json that says it is a model, so it is not ours to replace"
        if content in NOT_OURS
        else r"its config\.json is damaged, so nothing says that it is a model of ours; move it away"
    )
    with pytest.raises(InputError, match=said):
        write_folder(tmp_path, "new")
    assert (names(tmp_path), (tmp_path / MARKER).read_bytes()) == ([MARKER], content)


def test_a_marker_that_may_not_be_read_is_not_ours(tmp_path, monkeypatch):
    """Root may read each file, so the mode of one would test nothing there."""
    (tmp_path / MARKER).write_text(marked("old"))

    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    for read in ("read_bytes", "read_text"):
        monkeypatch.setattr(Path, read, refuse)
    with pytest.raises(InputError, match=r"no config\.json that says it is a model, so it is not ours to replace"):
        check_replaceable(tmp_path, KIND, overwrite=True)


@pytest.mark.parametrize("content", DAMAGED)
def test_a_folder_with_a_damaged_marker_is_replaced_if_another_file_is_a_sign_of_ours(tmp_path, content):
    kind = replace(KIND, signs=("deep/*.bin",))

    def write(*, overwrite=True):
        with atomic_folder(tmp_path / "model", kind, overwrite=overwrite) as part:
            (part / MARKER).write_text(marked("new"))

    (tmp_path / "model" / "deep").mkdir(parents=True)
    (tmp_path / "model" / MARKER).write_bytes(content)
    with pytest.raises(InputError, match="nothing says that it is a model of ours"):
        write()
    (tmp_path / "model" / "deep" / "a.bin").touch()
    (tmp_path / "model" / "mine").touch()
    with pytest.raises(InputError, match="holds mine, which is not ours to replace"):
        write()
    (tmp_path / "model" / "mine").unlink()
    with pytest.raises(InputError, match="is a model already; replace it with --overwrite"):
        write(overwrite=False)
    write()
    assert names(tmp_path / "model") == [MARKER]


@pytest.mark.parametrize(
    "stranger", [".git/HEAD", "main.py", "deep/config.json", "deep/er/a.bin", "a.bin"]
)
def test_a_folder_of_ours_that_holds_something_else_is_not_replaced(tmp_path, stranger):
    write_folder(tmp_path / "model", "old")
    (tmp_path / "model" / "deep").mkdir()
    (tmp_path / "model" / "deep" / "a.bin").touch()
    write_folder(tmp_path / "model", "old")
    file = tmp_path / "model" / stranger
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    with pytest.raises(InputError, match=rf"holds {Path(stranger).parts[0]}.*not ours to replace"):
        write_folder(tmp_path / "model", "new")
    assert file.read_text() == "mine"


def test_the_current_folder_and_a_mounted_one_are_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "above" / "deep").mkdir(parents=True)
    (tmp_path / "above" / MARKER).write_text(marked(""))
    monkeypatch.chdir(tmp_path / "above" / "deep")
    for path in (".", ".."):
        with pytest.raises(InputError, match="current folder"):
            write_folder(Path(path), "new")
    (tmp_path / "volume").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path / "volume")
    with pytest.raises(InputError, match="mounted"), atomic_folder(tmp_path / "volume", KIND):
        pytest.fail("the work has begun")


@pytest.mark.skipif(os.name == "nt", reason="Windows opens no folder")
def test_a_rename_is_on_the_disk_before_it_is_reported(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync

    def record(handle):
        names = sorted(path.name for path in tmp_path.iterdir())
        synced.append((str(Path(f"/proc/self/fd/{handle}").readlink()), names))
        fsync(handle)

    if not Path("/proc/self/fd").exists():
        pytest.skip("Linux tells what a number of an open file stands for")
    monkeypatch.setattr(os, "fsync", record)
    with files.atomic_file(tmp_path / "file") as part:
        part.write_text("x")
    assert synced[-1] == (str(tmp_path), ["file"])
    with files.atomic_folder(tmp_path / "folder", None) as part:
        (part / "inner").write_text("x")
    assert synced[-1] == (str(tmp_path), ["file", "folder"])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_library_that_tells_only_the_systems_words_gets_a_number_and_a_path(tmp_path, number):
    with pytest.raises(OSError, match="model") as raised, name_path_on_enospc(tmp_path / "model"):
        raise RuntimeError(f"I/O error: {os.strerror(number)} (os error {number})")
    assert (raised.value.errno, raised.value.filename) == (number, str(tmp_path / "model"))
