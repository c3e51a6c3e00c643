"""The border between a verb and the shell: exit codes, one-line errors, one JSON object.

A verb raises; it never exits itself. Exit codes: 0 success, 2 bad input (`InputError`, or options
that typer refuses), 130 interrupted (Ctrl-C), 1 anything else: a full disk, a file that may not be
read, no memory, a bug. `REJOINDER_DEBUG=1` shows the traceback above the line.
"""

from __future__ import annotations

import errno
import functools
import json
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from typer.core import TyperCommand, TyperGroup

from rejoinder.cli.values import PlainValues
from rejoinder.errors import (
    INTERRUPTED,
    INTERRUPTED_CODE,
    InputError,
    RejoinderError,
    is_interrupt,
)
from rejoinder.progress import escaped, note, printable


class Command(PlainValues, TyperCommand):
    """A verb whose help names arguments in capitals, as the documents do.

    Types of Python are left out.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                argument: Any = parameter
                argument.metavar = argument.metavar or argument.name.upper()
                argument.display_type_rich = lambda ctx: None  # noqa: ARG005

    def invoke(self, ctx: Any) -> Any:
        """Run the verb, unless a number among the options is infinite or NaN."""
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{parameter.opts[-1]} is {value}; give a finite number")
        return super().invoke(ctx)


class Group(PlainValues, TyperGroup):
    """A verb with verbs of its own."""


P = ParamSpec("P")
R = TypeVar("R")

_FULL = (errno.ENOSPC, errno.EDQUOT)


def guarded(verb: Callable[P, R]) -> Callable[P, R]:
    """Wrap a verb: an exception becomes one line on standard error and an exit code."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result = verb(*args, **kwargs)
            sys.stdout.flush()
        except (KeyboardInterrupt, Exception) as error:
            if _is_exit(error):  # typer's own way to end: it prints and chooses the code
                raise
            code, line = explain(error)
            if os.environ.get("REJOINDER_DEBUG", "0") not in ("", "0"):
                traceback.print_exception(error)
            if line:
                note(f"rejoinder: {line}")
            _abandon_broken_stdout()
            raise SystemExit(code) from None
        return result

    return run


_LIBRARIES = {
    "torch": "this needs PyTorch, which is not installed: pip install 'rejoinder[torch]'"
    " (Linux without a GPU: first"
    " pip install torch --index-url https://download.pytorch.org/whl/cpu)",
    "pyarrow": "this reads or writes Parquet and needs pyarrow, which is not installed:"
    " pip install 'rejoinder[parquet]'",
}
"""Large libraries that are not in the base, and the line for whoever needs one."""


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code for an exception and the line to print, if any."""
    line = " ".join(str(error).split())
    if isinstance(error, InputError):
        return 2, f"error: {line}"
    if isinstance(error, ImportError) and error.name in _LIBRARIES:
        return 2, f"error: {_LIBRARIES[error.name]}"
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        # Bytes of an argument that are not UTF-8 arrive as lone surrogates.
        return (
            2,
            f"error: {error.object[:60]!a} is not UTF-8 text; check the encoding of the input",
        )
    if is_interrupt(error):
        return INTERRUPTED_CODE, INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return 1, ""
    return 1, f"error: {_failure(error, line)}"


def _failure(error: BaseException, line: str) -> str:
    """Return the line that tells an error to people; `line` is what it says itself."""
    for cause in _chain(error):
        # Some libraries (safetensors, torch) wrap the system's error in one of their own and keep
        # only its text.
        if getattr(cause, "errno", None) in _FULL or os.strerror(errno.ENOSPC) in str(cause):
            return (
                f"no space left to write{_file_of(cause, ' ')}; free some."
                " Older output is untouched"
            )
    if isinstance(error, RejoinderError):
        return line
    if any(map(_is_memory, _chain(error))):
        # the useful part of PyTorch's long message
        if not isinstance(error, MemoryError):
            wanted = re.search(r"(?i)tried to allocate [\d.,]+ \w+", line)
            line = wanted[0].lower() if wanted else ""
        return (
            f"not enough memory{': ' + line if line else ''};"
            " give less at once, or use a larger machine"
        )
    if isinstance(error, OSError):
        reason = error.strerror or line or type(error).__name__
        return f"{reason}{_file_of(error, ': ')}; check the path and its permissions"
    return (
        f"{type(error).__name__}: {line} (REJOINDER_DEBUG=1 shows where;"
        " if it looks like a bug, please report it)"
    )


def emit(
    result: Mapping[str, Any], as_json: bool, human: Callable[[Mapping[str, Any]], str]
) -> None:
    """Print a verb's result: one JSON object, or the text that `human` makes.

    The object may hold numpy values and paths.
    """
    if as_json:
        ascii_only = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace(
            "-", ""
        ) != "utf8"
        text = json.dumps(result, ensure_ascii=ascii_only, allow_nan=False, default=_plain)
        text = escaped(text)
    else:
        text = printable(human(result))
    print(text, flush=True)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _is_exit(error: BaseException) -> bool:
    import typer

    # `Exit` and usage errors carry their code; they have no common base that all versions of typer
    # export.
    return isinstance(error, typer.Abort) or hasattr(error, "exit_code")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_memory(error: BaseException) -> bool:
    # PyTorch's allocators raise RuntimeErrors, of which only the one for GPUs has a class of its
    # own.
    message = str(error) if isinstance(error, RuntimeError) else ""
    return (
        isinstance(error, MemoryError)
        or "DefaultCPUAllocator" in message
        or "out of memory" in message.lower()
    )


def _file_of(error: BaseException, before: str) -> str:
    name = getattr(error, "filename", None)
    return f"{before}{name}" if isinstance(name, str) else ""


def _abandon_broken_stdout() -> None:
    """Let the interpreter end quietly when standard output cannot take what is buffered."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def megabytes(result: Mapping[str, Any]) -> str:
    """Return the bytes of a folder for people."""
    return f"{result['bytes'] / 1e6:.1f} MB"
