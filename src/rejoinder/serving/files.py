"""Files of replies, read in a process of its own with limits of time and memory.

Readers are made for files that people have. A file that is made against them may keep a reader for
minutes or take gigabytes: its process is ended then, and the server goes on answering.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.candidates import distinct, read_candidates
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.paths import is_plain
from rejoinder.serving.http.logs import logger, places

SECONDS = 10  # of a reading: of processor time, and half as much again until it is ended
MEMORY = 512 << 20  # bytes that it may take beside the libraries
REPLIES = 3_000  # of a file, all of which are encoded before the server answers
TEXTS = 5_000  # replies and examples of a file
TEXT_LETTERS = 20_000
TITLE_LETTERS = 1_000
LETTERS = 2_000_000  # of all replies and examples of a file
AT_ONCE = 2  # files that are read at once; others wait
# Variables that the process gets. It parses files of strangers, so it gets none of the others, such
# as the server's keys or the password of a database.
_PASSED_ON = frozenset(
    (
        *("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),  # programs
        *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "PYTHONUTF8"),  # letters of paths
        *("TMPDIR", "TEMP", "TMP", "HOME", "USERPROFILE"),  # folders
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "PATHEXT"),  # Windows starts nothing without
        *("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"),  # of tests
    )
)
# Each thread of a library would take address space, of which there is little.
_FEW_THREADS = {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
_OUT_OF_MEMORY = 3  # exit code
# native libraries abort where there is no memory
_ENDED_BY_LIMITS = {getattr(signal, name, None) for name in ("SIGKILL", "SIGXCPU", "SIGABRT")}
_FOUND = Choice(is_settable=False)  # whoever sends a file has no settings
_ADD = "add them with `rejoinder index add` on the server's machine, or in several files"
_START = "import sys; sys.path[:] = {path!r}; from rejoinder.serving.files import main; main()"


class FileReader:
    """Reads files of replies, `AT_ONCE` at a time, each in a process of its own."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)

    async def read(self, name: str, content: str) -> tuple[list[Candidate], list[str]]:
        """Return the distinct replies of a file and how it was understood.

        Args:
            name: of the file; its ending counts.
            content: its bytes in base64.

        Raises:
            InputError: the file is not read, takes too long or too much memory, or holds no
                replies, or too many.
        """
        async with self._places:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"file{_suffix(name)}"
                await asyncio.to_thread(path.write_bytes, _decoded(content))
                answer = await _run(path, name)
        if "error" in answer:
            reason = str(answer["error"]).replace(str(path), name)
            raise InputError(f"{name} is not imported: {reason}")
        replies = [
            Candidate(text, payload, title, tuple(map(tuple, examples)))
            for text, payload, title, examples in answer["replies"]
        ]
        return replies, [note.replace(str(path), name) for note in answer["notes"]]


def _decoded(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except ValueError as error:
        raise InputError(f"content is not base64 ({error}); send the file's bytes in it") from None


def _suffix(name: str) -> str:
    return "".join(part for part in Path(name).suffixes[-2:] if is_plain(f"file{part}"))


async def _run(path: Path, name: str) -> dict[str, Any]:
    """Return what the process says of a file; it is ended if it takes too long."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _START.format(path=sys.path),
        str(path),
        env=_environment(os.environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(1.5 * SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise _exceeded(name) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    code = process.returncode or 0
    if code == _OUT_OF_MEMORY or -code in _ENDED_BY_LIMITS:
        raise _exceeded(name)
    try:
        answer: dict[str, Any] = msgspec.json.decode(output)
    except msgspec.DecodeError:
        answer = {"failure": {"code": code}}
    if "failure" in answer:
        logger.error("the reader of a file failed", extra={"fields": answer["failure"]})
        raise InputError(
            f"{name} cannot be read because of an internal error; see the server's log"
        )
    return answer


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    passed_on = {name: value for name, value in own.items() if name.upper() in _PASSED_ON}
    return {**passed_on, **_FEW_THREADS}


def _exceeded(name: str) -> InputError:
    return InputError(
        f"{name} takes more than {SECONDS} seconds or {MEMORY >> 20} MiB of memory to read; "
        f"check what it holds, or {_ADD}"
    )


def main() -> None:
    """Read the file that is named by the first argument, and write what it holds as JSON."""
    path = Path(sys.argv[1])
    limit_resources()
    try:
        output = msgspec.json.encode(_answer(path))
    except MemoryError:
        # The error's traceback holds all that was read, so there may be no memory to raise
        # another one, as `sys.exit` does.
        os._exit(_OUT_OF_MEMORY)
    sys.stdout.buffer.write(output)


def _answer(path: Path) -> dict[str, Any]:
    try:
        return _read(path)
    except InputError as error:
        return {"error": str(error)}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 (the server logs it)
        # no message: it may hold what the file does
        return {"failure": {"error": type(error).__name__, "trace": places(error)[:8]}}


def limit_resources() -> None:
    """Limit this process's time and memory, where the system can."""
    try:
        import resource
    except ImportError:  # Windows: the deadline ends it all the same
        return
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # macOS has no such limit
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _read(path: Path) -> dict[str, Any]:
    reading = Reading()
    replies = list(_limited(distinct(read_candidates(path, None, _FOUND, reading)), path))
    if not replies:
        raise InputError(f"{path} holds no replies")
    dropped = [f"left out: {count:,} {reason}" for reason, count in reading.dropped.items()]
    return {"replies": replies, "notes": [*reading.notes, *dropped]}


def _limited(candidates: Iterator[Candidate], path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the parts of replies. InputError: one is too long, or there are too many."""
    texts = 0
    letters = 0
    for number, reply in enumerate(candidates, 1):
        texts += 1 + len(reply.examples)
        example_letters = sum(len(text) for example in reply.examples for text in example)
        letters += len(reply.text) + len(reply.title) + example_letters
        letters += len(msgspec.json.encode(reply.payload)) if reply.payload else 0
        if number > REPLIES or texts > TEXTS or letters > LETTERS:
            raise InputError(
                f"{path} holds more than {REPLIES:,} replies, {TEXTS:,} replies and examples, or "
                f"{LETTERS:,} letters, the most that is imported at once; {_ADD}"
            )
        messages = (text for example in reply.examples for text in example)
        longest = max(len(reply.text), max(map(len, messages), default=0))
        if longest > TEXT_LETTERS or len(reply.title) > TITLE_LETTERS:
            raise InputError(
                f"{path}: reply {number} has a text of more than {TEXT_LETTERS:,} letters, or a "
                f"title of more than {TITLE_LETTERS:,}; shorten it"
            )
        yield reply.text, reply.payload, reply.title, reply.examples
