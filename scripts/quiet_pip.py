"""pip, made quiet: only what a reader can act on gets through."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# Notes about pip's own configuration that say nothing about this installation. Everything else is
# shown.
_NOISE = re.compile(
    r"WARNING: Location '.*' is ignored: it is neither a file nor a directory|\[notice\]"
)


def install(python: Path, arguments: Sequence[str], *, show: bool = True) -> list[str]:
    """Run `pip install` in the environment of `python`.

    Args:
        python: the interpreter whose environment is installed into.
        arguments: what follows `pip install`.
        show: pass pip's warnings and errors on to standard error while it runs.

    Returns:
        The lines of pip's standard error if it failed, [] if it succeeded.
    """
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
    ]
    # --no-compile: Python compiles the few modules that are used when they are, not thousands
    # beforehand.
    command += ["--no-compile", "--root-user-action=ignore", *arguments]
    lines = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stderr or ():
            if _NOISE.search(line) or not line.strip():
                continue
            lines.append(line.rstrip())
            if show:
                print(line.rstrip(), file=sys.stderr)
    return (lines or ["pip failed and gave no reason"]) if process.returncode else []


def reason(lines: Sequence[str]) -> str:
    """The last error among pip's lines, or its last line."""
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or list(lines))[-1].removeprefix("ERROR:").strip()
