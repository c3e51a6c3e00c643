"""`rejoinder table`: one table of many systems on many data sets, described by a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rejoinder.cli.rankers import Rankers
from rejoinder.cli.shell import emit

if TYPE_CHECKING:
    from rejoinder.evaluation.table_run import TablePlan


def table(
    file: Annotated[Path, typer.Argument(help="The table's rows and columns, such as recipes/tables/main.toml.")],
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the table and its cells.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the file, such as column.KEY.limit=2000."),
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option("--row", metavar="KEY", help="Only this row; repeatable. All if not given.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", metavar="KEY", help="Only this column; repeatable.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop if a model or data set is missing, instead of leaving a dash.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure every system of FILE on every data set of it: DIR/table.md, .csv, .json, .png, .svg.

    A finished cell is kept in DIR/cells and not measured again unless its model, data or settings changed; after Ctrl-C
    the same command goes on. What is missing gets a dash, and a note with the command that makes it.

    Example: rejoinder table recipes/tables/main.toml -o tables/main --set column.general.limit=5000
    """
    from rejoinder.evaluation.table import CELLS, check_output
    from rejoinder.evaluation.table_run import Measurement
    from rejoinder.progress import track

    plan = load_table(file, settings or [])
    check_output(folder)
    found = Measurement(Rankers(), folder / CELLS, track, strict).table(plan, rows or [], columns or [])
    files = found.save(folder)
    result = {**found.to_json(), "files": files}
    emit(result, as_json, lambda _: "\n".join([found.markdown(), *map(str, files)]))


def load_table(path: Path, overrides: Sequence[str] = ()) -> TablePlan:
    """Read the file of a table.

    Args:
        path: a TOML file; see `evaluation.table_run`.
        overrides: settings "column.KEY.limit=2000" that win over the file, in TOML's syntax.

    Raises:
        InputError: the file is missing or not TOML, a key is unknown, a value is of the wrong type or not allowed.
    """
    from rejoinder.evaluation.table_run import TablePlan
    from rejoinder.settings import override, read_toml, validate

    document = read_toml(path, "no such file; give a TOML file of a table (recipes/tables/main.toml)")
    for setting in overrides:
        override(document, setting)
    return validate(TablePlan, document, str(path))
