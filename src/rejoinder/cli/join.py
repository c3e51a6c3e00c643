"""`rejoinder join`: one model of two encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rejoinder.cli.options import Json, Limit, Overwrite, Seed, Split, ValidSplit
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.files import check_replaceable
from rejoinder.progress import track

if TYPE_CHECKING:
    from rejoinder.encoders.joined import JoinedEncoder

SHARES = tuple(twentieth / 20 for twentieth in range(21))
CANDIDATES = 100


def join(
    first: Annotated[str, typer.Argument(help="A model folder, or the name of a model.")],
    second: Annotated[str, typer.Argument(help="Another one.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")],
    share: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="S", help="Share of the second in a reply's score."),
    ] = None,
    opening_share: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="S", help="The same where nothing was said before."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA",
            help="Choose the share on these conversations; repeatable, with the same weight.",
        ),
    ] = None,
    split: ValidSplit = None,
    limit: Limit = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Join two models into one, whose scores are a mean of theirs.

    One then has what the other did not learn. With --data the share is that of the best mean
    reciprocal rank among 100 candidates, or as many as there are.

    Example: rejoinder join bi-base support/run/model --data data/support -o support/joined
    """
    from rejoinder.cli.rankers import report_truncated
    from rejoinder.encoders.conversation import track_truncation
    from rejoinder.encoders.joined import JoinedEncoder
    from rejoinder.encoders.persistence import FOLDER, load, save_joined

    if (share is None) == (not data):
        raise InputError(
            "give the second model's share (--share 0.3), or conversations to choose it on (--data)"
        )
    check_replaceable(output, FOLDER, overwrite=overwrite)  # before the work
    joined = JoinedEncoder(load(first), load(second), opening_share=opening_share)
    tried = list[dict[str, float]]()
    if data:
        tried = _try(track_truncation(joined), data, split, limit, seed)
        report_truncated(joined, "messages")
        share = max(tried, key=lambda row: row["mrr"])["share"]
    assert share is not None
    save_joined(output, joined.with_share(share), overwrite=overwrite)
    made = {"model": str(output), "share": share, "opening_share": opening_share, "tried": tried}
    emit(made, as_json, _text)


def _try(
    joined: JoinedEncoder, data: Sequence[Path], split: Split | None, limit: int | None, seed: int
) -> list[dict[str, float]]:
    """Return share, recall at 1 and mean reciprocal rank of each of `SHARES`.

    Both are means over the data.
    """
    from rejoinder.corpora.examples import read_examples
    from rejoinder.evaluation.ranking import evaluate_task
    from rejoinder.evaluation.tasks import ranking_task, sample

    tasks = []
    for place in data:
        with track(f"Reading {place}") as advance:
            part = "valid" if split is None and place.is_dir() else split
            examples = sample(read_examples(place, part), limit, seed, progress=advance)
            most = min(CANDIDATES, len(examples))
            tasks.append(ranking_task(examples, candidates=most, copies="right", seed=seed))
    known = joined.with_cache()
    rows = []
    shares = SHARES if joined.config.opening_share is None else SHARES[1:-1]
    with track("Ranking", total=len(shares) * sum(map(len, tasks)), unit="examples") as advance:
        for share in shares:
            ranker = known.with_share(share)
            found = [evaluate_task(ranker, task, seed=seed, progress=advance) for task in tasks]
            recall = fmean(result.recall[1].value for result in found)
            rows.append(
                {
                    "share": share,
                    "recall@1": recall,
                    "mrr": fmean(result.mrr.value for result in found),
                }
            )
    return rows


def _text(result: Mapping[str, Any]) -> str:
    lines = ["share of the second   R@1    MRR"] if result["tried"] else []
    lines += [
        f"{row['share']:19.2f}  {row['recall@1']:.1%}  {row['mrr']:.1%}" for row in result["tried"]
    ]
    opening = result["opening_share"]
    said = "" if opening is None else f", {opening:g} where nothing was said before"
    return "\n".join(
        [
            *lines,
            f"the second model's share is {result['share']:g}{said}",
            f"model: {result['model']}",
        ]
    )
