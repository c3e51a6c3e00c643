"""`rejoinder evaluate` and `index evaluate`: recall of rankers and searches."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from rejoinder.cli.arguments import (
    DeviceName,
    Earlier,
    Json,
    ReplyForm,
    Sampled,
    SplitOption,
    TestSplit,
    number_or_all,
)
from rejoinder.cli.models import (
    ENCODER_BLOCK,
    OpenRankers,
    fit_ranker,
    open_index,
    read_training,
    report_truncated,
)
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.progress import note, track

if TYPE_CHECKING:
    from rejoinder.conversations import Context
    from rejoinder.corpora.schema import Example
    from rejoinder.encoders.protocol import Ranker
    from rejoinder.evaluation.result import RankingResult
    from rejoinder.evaluation.tasks import Copies, RankingTask
    from rejoinder.lab.table import Table
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.search import Searcher

TABLE = "table"  # value of --context that compares all readings
_MODELS = (
    "Model folders, bi-small; bm25, bm25-data19, tfidf;"
    " sentence encoders: minilm, use, e5, st:NAME (of sentence-transformers);"
    " sim:, sim-history: or map:ENCODER (one of these, or a model folder;"
    " FOLDER#r); hybrid:MODEL (and BM25). One model may be followed by one data set."
)
_DATA = "Data folders, or Parquet, JSONL or CSV files of examples."
_FOLDER = "Folder for table.md, .json, .png and .svg."
_ALL = (
    "Candidates per example, if the data has no lists; all: every different response of the data"
    " set."
)
_PARTS = (
    "Part of a context to read: full; N: the newest message and N earlier ones. Only multi-context"
    " models, which read a history, take input, history or history=N alone; table: compare all."
)
_COPIES = "How to count other candidates with the right text (the papers: wrong)."
_REPLIES = (
    "Your canned replies, as for `rejoinder index build`: all of them are ranked for each example."
)
Candidates: TypeAlias = Annotated[
    int | None, typer.Option(parser=number_or_all(2), metavar="N|all", help=_ALL)
]
FitOn: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="DATA",
        help="Data to fit tfidf, bm25-data19, map and hybrid on (its training split).",
    ),
]
ContextOption: TypeAlias = Annotated[str, typer.Option(metavar="READING", help=_PARTS)]
Above: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="MODEL", help="Show gains over this model; repeatable.")
]
Folder: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help=_FOLDER)
]


def evaluate(
    given: typer.Context,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="MODEL", help=_MODELS)] = None,
    data: Annotated[list[str] | None, typer.Option(metavar="DATA", help=_DATA)] = None,
    candidates: Candidates = 100,
    replies: Annotated[Path | None, typer.Option(metavar="FILE", help=_REPLIES)] = None,
    settings: ReplyForm = None,
    copies: Annotated[Literal["right", "wrong"], typer.Option(help=_COPIES)] = "right",
    sampled: Sampled = None,
    split: TestSplit = None,
    context: ContextOption = "full",
    fit_on: FitOn = None,
    above: Above = None,
    folder: Folder = None,
    device: DeviceName = "auto",
    as_json: Json = False,
) -> None:
    """Measure rankers: recall at 1, 2, 3, 5, 10, 50 and MRR, with 95 % intervals.

    Each response is a candidate for the other examples of its group of N, unless the data gives
    lists of candidates. Ties count against the model.

    Example: rejoinder evaluate runs/small/model bm25 --data data/chitchat

    With several models and data sets, a last table shows one line per model and one column per data
    set: rejoinder evaluate runs/general/model runs/support/model --data data/support data/general

    To see how often the right reply of your own ranks first, or in the first ten:
    rejoinder evaluate bm25 runs/support/model --replies replies.jsonl --data chats.jsonl
    """
    from rejoinder.evaluation import contexts, report
    from rejoinder.lab.table import table_of_rows

    above = above or []
    reading = contexts.FULL if context == TABLE else contexts.parse_reading(context)
    models, places = _models_and_data(arguments or [], data or [])
    _check_table(models, above, context == TABLE, folder)
    if settings and replies is None:
        raise InputError("--set says how the file of --replies is read; name one, or leave it out")
    pool = None if replies is None else _read_replies(replies, settings, given)
    opener = OpenRankers(device)
    bare = {name: opener.ranker(name) for name in models}
    rankers = {name: contexts.restrict(ranker, reading, name) for name, ranker in bare.items()}
    loading = (read_task(Path(p), split, candidates, sampled, copies, pool) for p in places)
    if context == TABLE:
        _compare_readings(rankers, loading, as_json)
        return
    tasks = list(loading)
    training = [read_training(bare, Path(path), split, reading, fit_on) for path in places]
    rows = []
    learned = []
    for (name, task), examples in zip(tasks, training, strict=True):
        for model, ranker in rankers.items():
            if facts := fit_ranker(model, bare[model], partial(list, examples)):
                learned.append({"model": model, "data": name, **facts})
            result = _ranked(model, ranker, task, opener.block_size(model))
            rows.append(report.Row(model, name, result, str(reading)))
    opener.report_truncated()
    if folder is not None:
        save_with_note(table_of_rows(rows, "Recall at 1"), folder)
    facts = {"results": report.to_json(rows, above), "learned": learned}
    emit(facts, as_json, lambda _: report.plain(rows, _width(), above).rstrip("\n"))


def _ranked(model: str, ranker: Ranker, task: RankingTask, block_size: int | None) -> RankingResult:
    from rejoinder.evaluation.ranking import evaluate_task

    with track(f"Ranking with {model}", total=len(task)) as advance:
        return evaluate_task(ranker, task, block_size=block_size, progress=advance)


def _check_table(
    models: Sequence[str], above: Sequence[str], context_table: bool, folder: Path | None
) -> None:
    from rejoinder.lab.folder import check_output

    if missing := [name for name in above if name not in models]:
        raise InputError(
            f"--above {missing[0]}: not among the evaluated models: {', '.join(models)}"
        )
    for option, chosen in (("--above", above), ("-o", folder)):
        if context_table and chosen:
            raise InputError(f"--context table shows all readings of a context; leave {option} out")
    if folder is not None:
        check_output(folder)


DataOption: TypeAlias = Annotated[
    list[Path],
    typer.Option(metavar="DATA", help="Conversations with their replies; repeatable."),
]
HybridOption: TypeAlias = Annotated[
    float,
    typer.Option(min=0, metavar="W", help="Weight of BM25, added to each score."),
]
To: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="DIR",
        help="Report of errors and remedies, for one index and data set.",
    ),
]


def evaluate_index(
    indexes: Annotated[list[str], typer.Argument(metavar="INDEX...", help="Indexes to compare.")],
    data: DataOption,
    hybrid: HybridOption = 0,
    sampled: Sampled = None,
    split: TestSplit = None,
    history: Earlier = None,
    to: To = None,
    device: DeviceName = "auto",
    as_json: Json = False,
) -> None:
    """Measure recall at 1, 3, 10, 30 and 100 among all replies of an index.

    Example: rejoinder index evaluate replies.index --data chats.jsonl
    """
    from rejoinder.corpora.forms.examples import read_examples
    from rejoinder.evaluation import ranking, report
    from rejoinder.evaluation.contexts import parse_reading
    from rejoinder.evaluation.tasks import ranked_part, sample

    if missing := [path for path in data if not path.exists()]:
        raise InputError(f"{missing[0]} does not exist; --data names the conversations")
    if to is not None and (len(data), len(indexes)) != (1, 1):
        raise InputError("--report needs exactly one index and one --data")
    reading = parse_reading("full" if history is None else str(history))
    rows = []
    for path in data:
        part = ranked_part(path, split)
        with track(f"Reading {path}") as advance:
            examples = sample(read_examples(path, part), sampled, progress=advance)
        for name in indexes:
            opened = open_index(name, device=device)
            search = partial(_search, opened, ranking.SEARCHED_FOR, history, hybrid)
            replies = (candidate.text for _, candidate in opened)
            with track(f"Searching {opened.store}", total=len(examples)) as advance:
                result = ranking.evaluate_search(search, replies, examples, progress=advance)
            source = f"{path} ({part})" if part else str(path)
            rows.append(report.Row(str(opened.store), source, result, str(reading)))
            report_truncated(opened.encoder, "messages")
            if to is not None:
                _review(opened, examples, to)
    note(
        f"a reply that is not among the first {ranking.RETRIEVED_AT[-1]} counts as the last of all"
    )
    tasks = {(row.data, row.result.fingerprint) for row in rows}
    if len(tasks) > len(data):
        note("the indexes hold different replies, so that no gain over the first is given")
    emit(
        {"results": report.to_json(rows)}, as_json, lambda _: report.plain(rows, _width()).rstrip()
    )


def _review(index: Index, examples: Sequence[Example], folder: Path) -> None:
    from rejoinder.curation.review import review
    from rejoinder.curation.review_report import save_review

    with track("Analysing mistakes", total=len(examples)) as advance:
        save_review(index, review(index, examples, progress=advance), folder)


def _search(
    index: Searcher, k: int, history: int | None, hybrid: float, contexts: Sequence[Context]
) -> list[list[tuple[str, float]]]:
    from rejoinder.retrieval.options import ANY_SCORE

    results = index.search(contexts, k, ANY_SCORE, history=history, hybrid=hybrid, distinct=False)
    return [[(reply.text, reply.score) for reply in replies] for replies in results]


def save_with_note(table: Table, folder: Path) -> list[Path]:
    """Write a table; print a note if the library for its pictures is missing."""
    from rejoinder.lab.folder import PICTURES, save_table

    files = save_table(table, folder)
    if not {f".{kind}" for kind in PICTURES} <= {file.suffix for file in files}:
        note(f"no picture in {folder}: {MissingExtraError('a picture', 'plots')}")
    return files


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _compare_readings(
    rankers: Mapping[str, Ranker],
    tasks: Iterable[tuple[str, RankingTask]],
    as_json: bool,
) -> None:
    from rejoinder.evaluation.contexts import context_table, table_readings, with_parts

    for model, ranker in rankers.items():
        with_parts(ranker, model)  # a wrong model is refused before the data is read
    tables = []
    for name, task in list(tasks):
        for model, ranker in rankers.items():
            with track(f"Ranking with {model}", total=len(task) * len(table_readings())) as advance:
                tables.append(context_table(ranker, task, model, name, 0, ENCODER_BLOCK, advance))
    report = {"results": [row for table in tables for row in table.to_json()]}
    emit(
        report, as_json, lambda _: "\n".join(table.plain(_width()) for table in tables).rstrip("\n")
    )


def _models_and_data(arguments: Sequence[str], data: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate models from data: the parser gives --data only its first word."""
    from rejoinder.encoders import bundled
    from rejoinder.lab.rankers import WITHOUT_MODEL

    if not data:
        if len(arguments) != 2:
            raise InputError(
                "name the data with --data, or give exactly one model and one data set"
            )
        return [arguments[0]], [arguments[1]]
    if not arguments:
        raise InputError(
            f"no model before --data {data[0]}; name one or more: a model folder (RUN/model of a"
            f" training run), {', '.join(bundled.names())}, {bundled.RANKERS}"
        )
    more = [
        n
        for n in arguments
        if n not in WITHOUT_MODEL and (Path(n).is_file() or any(Path(n).glob("*.parquet")))
    ]
    models = [name for name in arguments if name not in more]
    if not models:
        raise InputError(
            f"{', '.join(more)}: data, not a model;"
            f" name a model folder or {', '.join(WITHOUT_MODEL)} too"
        )
    return models, [*data, *more]


def _read_replies(file: Path, settings: list[str] | None, context: typer.Context) -> list[str]:
    from rejoinder.corpora.keys import text_key
    from rejoinder.corpora.registry.candidates import read_candidates
    from rejoinder.corpora.registry.reply_settings import parse_settings

    for option in ("candidates", "copies"):
        if (
            source := context.get_parameter_source(option)
        ) is not None and source.name == "COMMANDLINE":
            raise InputError(
                f"--replies ranks all different replies of {file}; leave --{option} out"
            )
    choice = parse_settings(settings)
    texts = [candidate.text for candidate in read_candidates(file, choice=choice)]
    if same := len(texts) - len({text_key(text) for text in texts}):
        but = "except for case, spaces, punctuation and Unicode normalisation"
        note(
            f"{file}: {same:,} of {len(texts):,} replies are equal to an earlier one {but};"
            " the first one counts"
        )
    return texts


def read_task(
    path: Path,
    split: SplitOption | None,
    candidates: int | None,
    sampled: int | None,
    copies: Copies = "wrong",
    replies: Sequence[str] | None = None,
) -> tuple[str, RankingTask]:
    """Return the name of the data, and the task.

    With `candidates` None, all different responses are candidates.
    """
    from rejoinder.corpora.forms.examples import read_examples
    from rejoinder.evaluation.tasks import all_responses, ranked_part, ranking_task, sample

    split = ranked_part(path, split)
    name = f"{path} ({split})" if split else str(path)
    with track(f"Reading {path}") as advance:
        examples = sample(read_examples(path, split), sampled, progress=advance)
    try:
        if replies is not None:
            return name, ranking_task(examples, pool=replies, are_sent=True)
        if candidates is None:
            return name, ranking_task(examples, pool=all_responses(path))
        return name, ranking_task(examples, candidates=candidates, copies=copies)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
