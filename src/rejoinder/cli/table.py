"""`rejoinder table`: one table of many systems on many data sets, described by a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rejoinder.cli.evaluate import ENCODER_BLOCK
from rejoinder.cli.rankers import Opener, scores_depend_on_the_call
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.models import bundled

if TYPE_CHECKING:
    from rejoinder.corpora.example import Example
    from rejoinder.evaluation.table_file import TableFile
    from rejoinder.ranker import Ranker


def table(
    file: Annotated[Path, typer.Argument(help="The table's rows and columns, recipes/tables/main.toml say.")],
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the table and its cells.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the file, column.KEY.limit=2000 say."),
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
    from rejoinder.evaluation.cells import CellStore
    from rejoinder.evaluation.plots import check_matplotlib
    from rejoinder.evaluation.table import check_folder
    from rejoinder.evaluation.table_markdown import markdown
    from rejoinder.evaluation.table_run import CELLS, Measurement
    from rejoinder.progress import track

    plan = load_table(file, settings or []).chosen(rows or [], columns or [])
    check_folder(folder)
    check_matplotlib()
    found = Measurement(TableRankers(), CellStore(folder / CELLS), track, strict).table(plan)
    files = found.save(folder)
    result = {**found.to_json(), "files": files}
    emit(result, as_json, lambda _: "\n".join([markdown(found), *map(str, files)]))


def load_table(path: Path, overrides: Sequence[str] = ()) -> TableFile:
    """Read the file of a table.

    Args:
        path: a TOML file; see `evaluation.table_file`.
        overrides: settings "column.KEY.limit=2000" that win over the file, in TOML's syntax.

    Raises:
        InputError: the file is missing or not TOML, a key is unknown, a value is of the wrong type or not allowed.
    """
    from rejoinder.checking import read_toml, validate
    from rejoinder.evaluation.table_file import DataColumn, SystemRow, TableFile
    from rejoinder.training.recipe_files import override

    document = read_toml(path, "no such file; give a TOML file of a table (recipes/tables/main.toml)")
    for setting in overrides:
        override(document, setting)
    kinds: tuple[tuple[str, type[Any]], ...] = (("row", SystemRow), ("column", DataColumn))
    for name, kind in kinds:  # one by one, so that an error names the key that is wrong
        entries = document.get(name)
        for key, entry in entries.items() if isinstance(entries, dict) else ():
            if not isinstance(entry, dict):
                raise InputError(f"{path}: {name}.{key} is {entry!r}; write a table, [{name}.{key}]")
            validate(kind, entry, str(path), f"{name}.{key}")
    return validate(TableFile, document, str(path))


class TableRankers:
    """The rankers that `rejoinder evaluate` knows (fulfils `evaluation.table_run.Rankers`)."""

    def __init__(self) -> None:
        self._opener = Opener()

    def identity(self, name: str) -> str:
        """The name; of "map:FOLDER#r" and its like with the folder's contents in its place, else with our version."""
        import rejoinder

        kind, colon, place = name.rpartition(":")
        folder, mark, output = place.partition("#")
        if "/" not in folder and not Path(folder).exists() and not bundled.is_name(folder):
            return f"{name} of rejoinder {rejoinder.__version__}"
        return f"{kind}{colon}{_contents(folder)}{mark}{output}"

    def open(self, name: str, training: Callable[[], Sequence[Example]]) -> tuple[Ranker, Mapping[str, Any] | None]:
        """See `evaluation.table_run.Rankers.open`."""
        from rejoinder.baselines.fitting import Fitted
        from rejoinder.progress import track

        ranker = self._opener.ranker(name)
        if not isinstance(ranker, Fitted):
            return ranker, None
        examples = training()
        with track(f"Fitting {name}", total=2 * len(examples), unit="texts") as advance:
            return ranker, ranker.fit(examples, advance)

    def block_size(self, name: str) -> int | None:
        """See `evaluation.table_run.Rankers.block_size`."""
        return None if scores_depend_on_the_call(name) else ENCODER_BLOCK


def _contents(place: str) -> str:
    """Fingerprint of a model folder, or SHA-256 of all files of a folder of another kind."""
    from rejoinder.files import file_digest
    from rejoinder.models.persistence import VOCABULARY, fingerprint, read_config

    folder = Path(place)
    if not folder.is_dir() or (folder / VOCABULARY).is_file():
        return fingerprint(read_config(place)[1])
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    digests = [(str(file.relative_to(folder)), file_digest(file)) for file in files]
    return hashlib.sha256(repr(digests).encode()).hexdigest()
