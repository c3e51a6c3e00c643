"""The start of the `rejoinder` command: streams, errors and exit codes."""

from __future__ import annotations

import io
import os
import sys

from rejoinder.errors import INTERRUPTED, INTERRUPTED_CODE, is_interrupt


def main() -> None:
    """Run the `rejoinder` command on the process's arguments and exit with its code.

    See `cli.shell`.
    """
    _open_closed()
    try:
        # Imported here so that even Ctrl-C during the imports ends in one line.
        from rejoinder.cli.shell import guarded

        guarded(_run)()
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_interrupt(error):
            raise
        print(f"rejoinder: {INTERRUPTED}", file=sys.stderr)
        raise SystemExit(INTERRUPTED_CODE) from None


def _open_closed() -> None:
    """Point a standard stream that the shell closed to the null device.

    Otherwise another file would take its number.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
            mode = "w" if number else "r"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _run() -> None:
    # Else pydantic reads the metadata of all installed libraries, to find plugins of its own.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    from rejoinder.cli.app import app
    from rejoinder.memory import limit_onednn_cache

    limit_onednn_cache()
    for stream in (sys.stdout, sys.stderr):
        # a terminal that cannot show a reply's letters shows their codes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="rejoinder")
    except SystemExit as ended:
        # Outside the verbs, as in the import of one, typer ends at Ctrl-C without a word.
        if not ended.__suppress_context__ and is_interrupt(ended.__context__):
            raise KeyboardInterrupt from None
        raise
