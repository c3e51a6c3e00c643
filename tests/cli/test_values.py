"""Plain values of options, which no pydantic converts: the same as typer's, without pydantic's words in errors."""

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from rejoinder.cli.values import PlainValues

Ratio = Annotated[float, typer.Option(min=0, max=1)]


def outcome(kind, words):
    """What a command gets from a line, or how it ends."""
    got = {}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    def doubled(value: str | None) -> str | None:
        return value and value * 2

    def longer(value: str) -> int:
        if len(value) < 2:
            raise typer.BadParameter("give another")
        return len(value)

    @app.command(cls=kind)
    def verb(
        place: Path,
        messages: Annotated[list[str] | None, typer.Argument()] = None,
        count: Annotated[int, typer.Option("-k", min=1, max=9)] = 5,
        share: Ratio = 0,
        least: float | None = None,
        omit: Literal["one", "two"] = "one",
        where: Annotated[list[str] | None, typer.Option()] = None,
        sizes: Annotated[list[int] | None, typer.Option()] = None,
        file: Annotated[Path | None, typer.Option(exists=True, dir_okay=False)] = None,
        clamped: Annotated[int, typer.Option(min=1, max=3, clamp=True)] = 1,
        called: Annotated[str | None, typer.Option(callback=doubled)] = None,
        parsed: Annotated[int | None, typer.Option(parser=longer)] = None,
        loud: bool = False,
    ):
        given = dict(locals())
        given.pop("got")
        got.update(given)

    done = CliRunner().invoke(app, words)
    types = {name: type(value) for name, value in got.items()}
    return done.exit_code, done.output, got, types


@pytest.mark.parametrize(
    "line",
    [
        "",
        "here",
        "here a b -k 3 --share 0.5 --least -2 --omit two --where x --where y --loud",
        "here -k 0",
        "here -k 10",
        "here -k three",
        "here -k 3.0",
        "here -k 1_0",
        "here -k 007",
        "here --share 1.5",
        "here --share 1e-3",
        "here --share nan",
        "here --least inf",
        "here --least 1e400",
        "here --least 12345678901234567890",
        "here --omit three",
        "here --sizes 1 --sizes 2",
        "here --sizes 1 --sizes x",
        "here --file nowhere",
        "here --file here",
        "here --file here/file",
        "here --clamped 7",
        "here --called ab",
        "here --parsed abc",
        "here --unknown",
        "--help",
    ],
)
def test_each_line_ends_as_with_typer_alone(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").touch()

    class Plain(PlainValues, TyperCommand):
        """The same command with plain values."""

    code, shown, *values = outcome(TyperCommand, line.split())
    code_plain, shown_plain, *values_plain = outcome(Plain, line.split())
    assert (code_plain, values_plain) == (code, values)
    if code == 0:
        assert shown_plain == shown
    else:
        assert shown_plain.startswith("rejoinder: error: ")
        assert shown_plain.count("\n") == 1
        assert not re.search("Value error|Input should|Usage", shown_plain)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("here -k 0", "-k 0: give a whole number from 1 to 9"),
        ("here -k three", "-k three: give a whole number from 1 to 9"),
        ("here --share 80", "--share 80: give a number from 0 to 1"),
        ("here --least much", "--least much: give a number"),
        ("here --omit three", "--omit three: give one of one, two"),
        ("here --sizes 1 --sizes x", "--sizes '1, x': give a whole number"),
        ("here --parsed x", "--parsed x: give another"),
        ("here --unknown", "no such option: --unknown (`verb -h` shows all)"),
        ("here -k", "option '-k' requires an argument (`verb -h` shows all)"),
        ("", "missing argument 'place' (`verb -h` shows all)"),
    ],
)
def test_a_refused_line_says_what_was_given_and_what_is_allowed(line, said):
    class Plain(PlainValues, TyperCommand):
        """The same command with plain values."""

    code, shown, *_ = outcome(Plain, line.split())
    assert (code, shown) == (2, f"rejoinder: error: {said}\n")


@pytest.mark.skipif(
    sys.platform == "win32" or not hasattr(os, "getuid") or os.getuid() == 0,
    reason="root reads all",
)
def test_a_path_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "closed").touch(mode=0)

    class Plain(PlainValues, TyperCommand):
        """The same command with plain values."""

    assert outcome(Plain, ["closed"])[0] == 2
