"""`rejoinder results`: a page of tables and pictures out of stored figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rejoinder.cli.options import Json
from rejoinder.cli.shell import emit


def results(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Files of figures, as benchmarks write them; in recorded/ those copied."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where pages and pictures go.")],
    as_json: Json = False,
) -> None:
    """Make tables and pictures of the figures that benchmarks have stored (extra plots).

    Example: rejoinder results benchmarks/results -o docs/results
    """
    from workshop.results import write_results

    written = [str(path) for path in write_results(folder, output)]
    emit({"written": written}, as_json, lambda _: "\n".join(written))
