"""`rejoinder lab`: the papers' tables, ablations, grids and plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from rejoinder.cli.arguments import (
    DeviceName,
    Json,
    ProcessesOption,
    Ray,
    Sampled,
    SettingsOption,
    SplitOption,
    check_processes,
    ray_engine,
)
from rejoinder.cli.evaluate import read_task, save_with_note
from rejoinder.cli.lab.intents import bert, few_shot, grid
from rejoinder.cli.lab.plot import plot
from rejoinder.cli.models import OpenRankers
from rejoinder.cli.shell import Command, emit, guarded
from rejoinder.cli.train import (
    DataOption,
    General,
    InitOption,
    RecipeFile,
    first_process_shows,
    recipe_places,
)
from rejoinder.errors import InputError, RejoinderError
from rejoinder.progress import track

lab = typer.Typer(
    name="lab",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The papers' tables: what a reader of the papers runs.",
    epilog="Example: rejoinder lab table tables/small -o tables/small",
)

RowsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--row",
        metavar="ROW",
        help=("Row to train in addition to the base; repeatable. Default: all."),
    ),
]
Seeds: TypeAlias = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Trainings of each row, with the recipe's seed and those after it."
    ),
]


def table(
    file: Annotated[
        Path, typer.Argument(help="The table's rows and columns: a *.toml file, or tables/NAME.")
    ],
    folder: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for the table and its cells."),
    ],
    settings: SettingsOption = None,
    rows: Annotated[
        list[str] | None, typer.Option("--row", metavar="ROW", help="Only this row; repeatable.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="COLUMN", help="Only this column; repeatable."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat a missing cell as an error, not a dash.")
    ] = False,
    device: DeviceName = "auto",
    as_json: Json = False,
) -> None:
    """Measure every system of FILE on every data set; write DIR/table.md, .json, .png, .svg.

    Finished cells are kept in DIR/cells, and measured again only if model, data or settings
    changed. After Ctrl-C the same command continues. A missing model or data set gets a dash, and a
    note with the command that makes it.

    Example: rejoinder lab table recipes/tables/main.toml -o tables/main --set
    column.general.limit=5000
    """
    from rejoinder.lab.folder import CELLS, check_output
    from rejoinder.lab.measurement import Measurement
    from rejoinder.lab.plan import load_table
    from rejoinder.settings import find_recipe

    plan = load_table(find_recipe(file), settings or [])
    check_output(folder)
    measured = Measurement(OpenRankers(device), folder / CELLS, track, strict).table(
        plan, rows or [], columns or []
    )
    if not measured.rows():
        missing = "; ".join(measured.missing())
        raise InputError(
            f"{file}: nothing to measure: {missing}; make one, or choose --column, --row"
        )
    files = save_with_note(measured, folder)
    emit(
        {**measured.to_json(), "files": files},
        as_json,
        lambda _: "\n".join([measured.markdown(), *map(str, files)]),
    )


def ablate(
    file: Annotated[
        Path,
        typer.Argument(help="A recipe and rows that change it: a *.toml file, or ablations/NAME."),
    ],
    data: Annotated[Path, typer.Option(metavar="DIR", help="Examples to train on and to rank.")],
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for runs and table.")
    ],
    rows: RowsOption = None,
    settings: SettingsOption = None,
    candidates: Annotated[
        int, typer.Option(metavar="N", help="Candidates per example, if the data has no lists.")
    ] = 100,
    sampled: Sampled = None,
    split: Annotated[
        SplitOption | None,
        typer.Option("--split", help="Part that is ranked. Default: the file's, else test."),
    ] = None,
    seeds: Seeds = 1,
    as_json: Json = False,
) -> None:
    """Train each row of FILE with the same budget and compare them on the same examples.

    The output is DIR/table.md and DIR/table.json. A row that is finished is not trained again;
    after Ctrl-C the same command continues.

    Example: rejoinder lab ablate ablations/convert-quick --data data/chat -o runs/ablations --row
    heads-8 --row no-skip
    """
    from rejoinder.lab.ablation_plan import load_plan
    from rejoinder.lab.ablation_table import markdown
    from rejoinder.lab.ablations import ablate as train_rows
    from rejoinder.memory import keep_memory
    from rejoinder.settings import find_recipe
    from rejoinder.training.distributed import is_first

    keep_memory()
    names = rows or []
    plan = load_plan(find_recipe(file), settings or [], data, split)
    plan.chosen(names)  # a wrong name is refused before the data is read
    name, task = read_task(data, plan.split, candidates, sampled)
    with first_process_shows(folder) as display:
        table = train_rows(plan, folder, task, data=name, names=names, seeds=seeds, display=display)
    if not is_first():
        return
    emit(
        {**table, "folder": folder},
        as_json,
        lambda _: f"{markdown(table)}\nfolder: {folder}",
    )
    if failed := [f"{row['row']}: {row['failure']}" for row in table["rows"] if row["failure"]]:
        raise RejoinderError(
            f"{len(failed)} of {len(table['rows'])} rows failed,"
            f" the others are done: {'; '.join(failed)}"
        )


def tokenise(
    recipe: RecipeFile,
    cache: Annotated[
        Path, typer.Option("--output", "-o", metavar="CACHE", help="Folder for the results.")
    ],
    data: DataOption = None,
    general: General = None,
    init: InitOption = None,
    settings: SettingsOption = None,
    processes: ProcessesOption = None,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Tokenise the examples of a recipe; `rejoinder train` with data.cache=CACHE then finds them.

    Example: rejoinder lab tokenise recipes/convert-quick.toml --data data/reddit -o cache
    --processes 8, then rejoinder train recipes/convert-quick.toml --data data/reddit --set
    data.cache=cache -o runs/small
    """
    from rejoinder.engine import local_engine
    from rejoinder.folder_kinds import check_shared
    from rejoinder.settings import find_recipe
    from rejoinder.training import recipe_files
    from rejoinder.training.display import TerminalDisplay
    from rejoinder.training.preparation.cache import CACHED
    from rejoinder.training.preparation.inputs import prepare

    check_processes(ray, processes)
    places = {**recipe_places(data, init), "data.cache": cache}
    plan = recipe_files.load_recipe(
        find_recipe(recipe), settings or [], places, mixed=general or ()
    )
    # `prepare` reports missing data.
    paths = [
        Path(path) for path in (plan.data.train, *(mixed.train for mixed in plan.data.mix)) if path
    ]
    files = [
        file
        for path in paths
        for file in (path.glob("*.parquet") if path.is_dir() else [path])
        if file.is_file()
    ]
    check_shared(cache, "a cache of tokens", CACHED)
    cache.mkdir(parents=True, exist_ok=True)
    cluster = None if ray is None else ray_engine(ray, cache / "store", files)
    with cluster or local_engine(processes, sum(file.stat().st_size for file in files)) as opened:
        prepared = prepare(plan, cache, TerminalDisplay(), opened)
    counts = {"train": len(prepared.train), "valid": sum(map(len, prepared.valid.values()))}
    shown = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    result = {"cache": str(cache), "examples": counts}
    emit(
        result, as_json, lambda _: f"examples: {shown}\nto train on them: --set data.cache={cache}"
    )


VERBS: Mapping[str, Callable[..., None]] = {
    "Measure every system of a plan on every data set": table,
    "Train each row of an ablation and compare": ablate,
    "Tokenise a recipe's examples ahead of training": tokenise,
    "Draw encoded texts by category": plot,
    "Train the grid of intent classifiers, keep the best": grid,
    "Measure intent classifiers with few texts per intent": few_shot,
    "Fine-tune a BERT with a classifier of intents": bert,
}
"""The verbs with their summaries."""
for _summary, _verb in VERBS.items():
    lab.command(_verb.__name__.replace("_", "-"), cls=Command, short_help=_summary)(guarded(_verb))
