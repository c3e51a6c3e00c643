"""`rejoinder train`, `rejoinder tokenise` and `rejoinder ablate`: run a recipe."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rejoinder.cli.arguments import (
    Json,
    Limit,
    Processes,
    Ray,
    Settings,
    Split,
    check_processes,
    ray_engine,
)
from rejoinder.cli.shell import emit
from rejoinder.errors import RejoinderError
from rejoinder.progress import note

if TYPE_CHECKING:
    from rejoinder.progress import Display

RecipeFile: TypeAlias = Annotated[
    Path,
    typer.Argument(
        help="A recipe: a *.toml file, or the name of one that `rejoinder recipes` lists."
    ),
]
Data: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Training examples (sets data.train).")
]
General: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="DIR", help="Examples to mix in: data.mix.0.train; repeatable."),
]
Init: TypeAlias = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Model to start from: init.model.")
]
Rows: TypeAlias = Annotated[
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


def train(
    recipe: RecipeFile,
    run: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="RUN", help="Folder for the results."),
    ],
    data: Data = None,
    general: General = None,
    init: Init = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Train a model; continue RUN where it stopped if it exists.

    RUN/model is the best model by validation.

    Example: rejoinder train convert-quick --data data/chitchat -o runs/small

    To fine-tune a model on your own data: rejoinder train fine-tune-direct-small --init
    runs/small/model --data data/support -o runs/support
    """
    from rejoinder.environment import keep_memory
    from rejoinder.settings import find_recipe
    from rejoinder.training import distributed, loop, recipe_files

    keep_memory()
    loaded = recipe_files.load_recipe(
        find_recipe(recipe), settings or [], _places(data, general, init)
    )
    with _first_process_shows() as display:
        summary = loop.train(loaded, run, display=display)
    if distributed.is_first():
        emit(summary.to_json(), as_json, _train_text)


def tokenise(
    recipe: RecipeFile,
    cache: Annotated[
        Path, typer.Option("--output", "-o", metavar="CACHE", help="Folder for the results.")
    ],
    data: Data = None,
    general: General = None,
    init: Init = None,
    settings: Settings = None,
    processes: Processes = None,
    ray: Ray = None,
    as_json: Json = False,
) -> None:
    """Tokenise the examples of a recipe; `rejoinder train` with data.cache=CACHE then finds them.

    Example: rejoinder tokenise recipes/convert-quick.toml --data data/reddit -o cache --processes
    8, then rejoinder train recipes/convert-quick.toml --data data/reddit --set data.cache=cache -o
    runs/small
    """
    from rejoinder.engine import local_engine
    from rejoinder.files import check_shared
    from rejoinder.progress import TerminalDisplay
    from rejoinder.settings import find_recipe
    from rejoinder.training import prepare, recipe_files

    check_processes(ray, processes)
    places = {**_places(data, general, init), "data.cache": cache}
    plan = recipe_files.load_recipe(find_recipe(recipe), settings or [], places)
    # `prepare` reports missing data.
    paths = [
        Path(place)
        for place in (plan.data.train, *(mixed.train for mixed in plan.data.mix))
        if place
    ]
    files = [
        file
        for path in paths
        for file in (path.glob("*.parquet") if path.is_dir() else [path])
        if file.is_file()
    ]
    check_shared(cache, "a cache of tokens", prepare.CACHED)
    cache.mkdir(parents=True, exist_ok=True)
    cluster = None if ray is None else ray_engine(ray, cache / "store", files)
    with cluster or local_engine(processes, sum(file.stat().st_size for file in files)) as opened:
        prepared = prepare.prepare(plan, cache, TerminalDisplay(), opened)
    counts = {"train": len(prepared.train), "valid": sum(map(len, prepared.valid.values()))}
    shown = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    result = {"cache": str(cache), "examples": counts}
    emit(
        result, as_json, lambda _: f"examples: {shown}\nto train on them: --set data.cache={cache}"
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
    rows: Rows = None,
    settings: Settings = None,
    candidates: Annotated[
        int, typer.Option(metavar="N", help="Candidates per example, if the data has no lists.")
    ] = 100,
    limit: Limit = None,
    split: Annotated[
        Split | None,
        typer.Option("--split", help="Part that is ranked. Default: the file's, else test."),
    ] = None,
    seeds: Seeds = 1,
    as_json: Json = False,
) -> None:
    """Train each row of FILE with the same budget and compare them on the same examples.

    The output is DIR/table.md and DIR/table.json. A row that is finished is not trained again;
    after Ctrl-C the same command continues.

    Example: rejoinder ablate ablations/convert-quick --data data/chat -o runs/ablations --row
    heads-8 --row no-skip
    """
    from rejoinder.cli.evaluate import read_task
    from rejoinder.environment import keep_memory
    from rejoinder.settings import find_recipe
    from rejoinder.training import ablations, distributed

    keep_memory()
    names = rows or []
    plan = ablations.load_plan(find_recipe(file), settings or [], data)
    if split is not None and split != plan.split:  # the published figures are of another part
        unlike = tuple(dataclasses.replace(row, published=None) for row in plan.rows)
        plan = dataclasses.replace(plan, split=split, rows=unlike)
    plan.chosen(names)  # a wrong name is refused before the data is read
    name, task = read_task(data, plan.split, candidates, limit)
    with _first_process_shows() as display:
        table = ablations.ablate(
            plan, folder, task, data=name, names=names, seeds=seeds, display=display
        )
    if not distributed.is_first():
        return
    emit(
        {**table, "folder": folder},
        as_json,
        lambda _: f"{ablations.markdown(table)}\nfolder: {folder}",
    )
    if failed := [f"{row['row']}: {row['failure']}" for row in table["rows"] if row["failure"]]:
        raise RejoinderError(
            f"{len(failed)} of {len(table['rows'])} rows failed,"
            f" the others are done: {'; '.join(failed)}"
        )


_VERBS = {"ablations": "ablate", "tables": "table"}  # of the folders of recipes


def recipes(as_json: Json = False) -> None:
    """List the recipes that come with Rejoinder; commands accept these names.

    Example: rejoinder recipes --json
    """
    from rejoinder import settings

    found = []
    for name, path in settings.recipes().items():
        document = settings.read_toml(path, "gone")
        verb = _VERBS.get(name.partition("/")[0], "train")
        about = document["description" if verb == "train" else "name"]
        found.append({"name": name, "verb": verb, "description": about, "path": str(path)})
    width = max(len(each["name"]) for each in found)
    lines = []
    for verb in ("train", *_VERBS.values()):
        lines += ["", f"rejoinder {verb}"]
        lines += [
            f"  {each['name']:<{width}}  {each['description']}"
            for each in found
            if each["verb"] == verb
        ]
    emit({"recipes": found}, as_json, lambda _: "\n".join(lines[1:]))


@contextlib.contextmanager
def _first_process_shows() -> Iterator[Display]:
    """Return the display of a training.

    Only the first process of torchrun reports errors.
    """
    from rejoinder.progress import Display, TerminalDisplay
    from rejoinder.training import distributed, loop

    try:
        yield TerminalDisplay() if distributed.is_first() else Display()
    except loop.TrainingInterrupted as interruption:
        if not distributed.is_first():
            raise typer.Exit(130) from None
        note(f"rejoinder: {interruption}")
        raise
    except distributed.RankZeroFailedError as error:  # another process reports it
        raise typer.Exit(error.code) from None


def _places(
    data: Path | None, general: list[str] | None, init: str | None
) -> dict[str, Path | str | None]:
    mixed = {f"data.mix.{number}.train": place for number, place in enumerate(general or [])}
    return {"data.train": data, "init.model": init, **mixed}


def _train_text(result: Mapping[str, Any]) -> str:
    from rejoinder.progress import duration
    from rejoinder.training.run import FEW, figure_texts

    done = f"{result['run']} is finished already; name another folder to train again"
    pairs = f"{result['steps']:,} steps, {result['examples']:,} pairs"
    lines = [*([done] if result["already_finished"] else [])]
    lines.append(f"{pairs} in {duration(result['seconds'])}, {result['precision']}")
    for name, value in figure_texts(result["validation"]).items():
        lines.append(f"validation {name}: {value} (step {result['best_step']:,})")
    if examples := result["validation"].get("examples"):
        lines.append(
            f"chosen by {'mrr' if examples < FEW else 'recall@1'}"
            f" on {examples:,.0f} validation examples"
        )
    return "\n".join([*lines, f"model: {result['model']}"])
