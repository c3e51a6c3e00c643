"""`rejoinder evaluate`: how often is the right response among the first k?"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rejoinder.cli.rankers import BASELINES, ENCODER_BLOCK, Rankers, fit_ranker, read_training
from rejoinder.cli.shell import emit, one_of
from rejoinder.errors import InputError

if TYPE_CHECKING:
    from rejoinder.corpora.example import Split
    from rejoinder.evaluation.contexts import ContextReading, ContextTable
    from rejoinder.evaluation.report import Row
    from rejoinder.evaluation.tasks import RankingTask
    from rejoinder.ranker import Ranker

def evaluate(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Model folders, convert-small, bm25, bm25-data19, tfidf, sim:, sim-history: or map:ENCODER (minilm, "
            "use, a model folder, FOLDER#r, one of sentence-transformers). One model may be followed by one data set.",
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="DATA", help="Data folders, or Parquet, JSONL or CSV files of examples."),
    ] = None,
    candidates: Annotated[
        str,
        typer.Option(
            metavar="N|all",
            help="N of 1-of-N, where the data has no lists; all: every different response of the whole data set.",
        ),
    ] = "100",
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Rank N examples at most, at random.")] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="train|valid|test", help="Of a folder test, of a file everything, if not given."),
    ] = None,
    context: Annotated[
        str,
        typer.Option(
            metavar="READING",
            help="What is read of a context: full; N: the newest message and N earlier ones; of multi-context models "
            "also input, history, history=N: by that part alone.",
        ),
    ] = "full",
    context_table: Annotated[
        bool, typer.Option("--context-table", help="Compare all readings of a context by multi-context models.")
    ] = False,
    fit_on: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="Its training split is what tfidf, bm25-data19 and map learn from; else each data set's own.",
        ),
    ] = None,
    above: Annotated[
        list[str] | None, typer.Option(metavar="MODEL", help="Show gains above it, not above the first; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the groups, of --limit and of the intervals.")] = 0,
    folder: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Also write table.md, .csv, .json, .png and .svg there."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure rankers: recall at 1, 2, 3, 5, 10, 50 and MRR, with 95 % intervals.

    Each response is a candidate for the other examples of its group of N, unless the data gives lists of candidates.
    Ties count against the model.

    Example: rejoinder evaluate runs/small/model bm25 --data data/chitchat

    With several models and several data sets, a last table has a line for each model, a column for each data set:
    rejoinder evaluate runs/general/model runs/support/model --data data/support data/general
    """
    from rejoinder.evaluation.contexts import parse_reading, restrict, with_parts
    from rejoinder.evaluation.report import plain, to_json
    from rejoinder.evaluation.table import table_of_rows

    models, places = _models_and_data(arguments, data or [])
    chosen, count, reading = parse_split(split), _candidates(candidates), parse_reading(context)
    _check_choices(models, above := above or [], context if context_table else None)
    if folder is not None:
        _check_output(folder, context_table)
    opener = Rankers()
    bare = {name: opener.ranker(name) for name in models}
    rankers = {name: restrict(ranker, reading, name) for name, ranker in bare.items()}
    if context_table:
        for name, ranker in rankers.items():
            with_parts(ranker, name)  # a wrong model is refused before the data is read
    tasks = [read_task(Path(place), chosen, count, limit, seed) for place in places]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if context_table:
        tables = [_tabulate(name, ranker, *task, seed) for task in tasks for name, ranker in rankers.items()]
        emit(
            {"results": [row for table in tables for row in table.to_json()]},
            as_json,
            lambda _: "\n".join(table.plain(width) for table in tables).rstrip("\n"),
        )
        return
    training = [read_training(bare, Path(place), chosen, reading, fit_on, seed) for place in places]
    rows: list[Row] = []
    learned: list[dict[str, Any]] = []
    for (name, task), examples in zip(tasks, training, strict=True):
        for model, ranker in rankers.items():
            if told := fit_ranker(model, bare[model], partial(list, examples)):
                learned.append({"model": model, "data": name, **told})
            rows.append(_rank(model, ranker, name, task, reading, seed, opener.block_size(model)))
    if folder is not None:
        table_of_rows(rows, "Recall at 1").save(folder)
    results = {"results": to_json(rows, above), "learned": learned}
    emit(results, as_json, lambda _: plain(rows, width, above).rstrip("\n"))


def _check_choices(models: Sequence[str], above: Sequence[str], context: str | None) -> None:
    """Refuse what does not fit together: `above`, and (None without --context-table) what is read of a context."""
    if context not in (None, "full"):
        raise InputError("--context-table shows every reading of a context; leave --context out")
    if context and above:
        raise InputError("--context-table shows the difference to the full context; leave --above out")
    if missing := [name for name in above if name not in models]:
        raise InputError(f"--above {missing[0]}: not one of the models that are evaluated: {', '.join(models)}")


def _check_output(folder: Path, context_table: bool) -> None:
    """Refuse before the work what would fail after it."""
    from rejoinder.evaluation.table import check_output

    if context_table:
        raise InputError("-o writes a table of models and data sets; leave it out with --context-table")
    check_output(folder)


def _models_and_data(arguments: Sequence[str], data: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tell models from data: `MODEL DATA`, or `MODEL... --data DATA...`.

    The parser hands only the first word after --data to the option, so the others are found by what they are.
    """
    if not data:
        if len(arguments) != 2:
            raise InputError("name the data with --data, or give exactly one model and one data set")
        return [arguments[0]], [arguments[1]]
    more = [name for name in arguments if _holds_examples(name)]
    models = [name for name in arguments if name not in more]
    if not models:
        raise InputError(f"{', '.join(more)}: data, not a model; name a model folder or {', '.join(BASELINES)} too")
    return models, [*data, *more]


def _holds_examples(name: str) -> bool:
    path = Path(name)
    return name not in BASELINES and (path.is_file() or any(path.glob("*.parquet")))


def parse_split(name: str | None) -> Split | None:
    """Return the split of that name; None for None.

    Raises:
        InputError: there is no such split.
    """
    from rejoinder.corpora.example import SPLITS

    return one_of("--split", name, SPLITS)


def _candidates(text: str) -> int | None:
    """N, or None for all."""
    if text == "all":
        return None
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--candidates must be a number of 2 or more, or all, not {text[:40]!r}") from None


def read_task(
    path: Path, split: Split | None, candidates: int | None, limit: int | None, seed: int
) -> tuple[str, RankingTask]:
    """Read what is ranked (see `evaluation.tasks.ranked_part`); return its name and the task.

    With `candidates` None, all different responses of the data are candidates.

    Raises:
        InputError: the data is missing or damaged, or has too few examples.
    """
    from rejoinder.corpora.examples import read_examples
    from rejoinder.evaluation.tasks import all_responses, ranked_part, ranking_task, sample
    from rejoinder.progress import track

    split = ranked_part(path, split)
    name = f"{path} ({split})" if split else str(path)
    with track(f"Reading {path}", unit="examples") as advance:
        examples = sample(read_examples(path, split), limit, seed, progress=advance)
    try:
        if candidates is None:
            return name, ranking_task(examples, pool=all_responses(path))
        return name, ranking_task(examples, candidates=candidates, seed=seed)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _rank(
    model: str, ranker: Ranker, data: str, task: RankingTask, reading: ContextReading, seed: int, block: int | None
) -> Row:
    from rejoinder.evaluation.ranking import evaluate_task
    from rejoinder.evaluation.report import Row
    from rejoinder.progress import track

    with track(f"Ranking with {model}", total=len(task), unit="examples") as advance:
        result = evaluate_task(ranker, task, seed=seed, block_size=block, progress=advance)
    return Row(model, data, result, str(reading))


def _tabulate(model: str, ranker: Ranker, data: str, task: RankingTask, seed: int) -> ContextTable:
    from rejoinder.evaluation.contexts import context_table, table_readings
    from rejoinder.progress import track

    total = len(task) * len(table_readings())
    with track(f"Ranking with {model}", total=total, unit="examples") as advance:
        return context_table(
            ranker, task, model=model, data=data, seed=seed, block_size=ENCODER_BLOCK, progress=advance
        )
