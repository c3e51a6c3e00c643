"""The command in this process: the words of a command line in, exit code and output out."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch

from rejoinder.cli.start import main


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object that a command which ended well printed."""
        assert self.code == 0, self.err
        assert self.out.count("\n") == 1
        return json.loads(self.out)


Command = Callable[..., Ended]


@pytest.fixture
def command(monkeypatch, capsys, request):
    """Run `rejoinder` with some words, after those that the test's module has in `VERB`."""
    verb = getattr(request.module, "VERB", ())

    def run(*words: object, stdin: str | bytes | None = None) -> Ended:
        monkeypatch.setattr(sys, "argv", ["rejoinder", *verb, *map(str, words)])
        if stdin is not None:
            data = stdin if isinstance(stdin, bytes) else stdin.encode()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(SystemExit) as ended:
            main()
        return Ended(int(ended.value.code or 0), *capsys.readouterr())

    threads = torch.get_num_threads()
    yield run
    torch.set_num_threads(threads)


@pytest.fixture
def refused(command):
    """Run a command that ends with code 2 and one line of error, which holds some words; return that line."""

    def run(
        *words: object, said: str | Sequence[str] = (), stdin: str | bytes | None = None
    ) -> str:
        code, out, err = command(*words, stdin=stdin)
        line = err.strip().splitlines()[-1]
        assert (code, out) == (2, ""), line
        assert "Traceback" not in err
        assert line.startswith("rejoinder: error: ")
        for each in [said] if isinstance(said, str) else said:
            assert each in line
        return line

    return run


@pytest.fixture
def answer(command):
    """Run a command that ends well: the JSON object that it prints."""
    return lambda *words: command(*words, "--json").json
