"""`rejoinder reply`: the best replies to a conversation."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.answers import (
    RerankOption,
    RerankTopOption,
    check_messages,
    open_searcher,
    read_messages,
    show_replies,
)
from rejoinder.cli.shell import emit


def reply(
    index: Annotated[Path, typer.Argument(help="A folder that `rejoinder index` wrote.")],
    messages: Annotated[
        list[str],
        typer.Argument(metavar="MESSAGE...", help="What was said, oldest first; - reads standard input, one a line."),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many replies.")] = 5,
    threshold: Annotated[
        float | None, typer.Option(metavar="SCORE", help="Only replies that score so much; cosines go from -1 to 1.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where the index's model is now, if it was moved.")
    ] = None,
    rerank: RerankOption = None,
    rerank_top: RerankTopOption = 50,
    verify: Annotated[bool, typer.Option("--verify", help="Check all files of a large index first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the best replies to a conversation: score, position and text of each.

    Example: rejoinder reply replies.index "Hi!" "How are you?" -k 3, or, with a slower model that ranks the best again,
    rejoinder reply replies.index "Hi!" --rerank runs/cross/model
    """
    context = list(read_messages(sys.stdin.buffer)) if messages == ["-"] else messages
    check_messages(context)
    searcher = open_searcher(index, model, rerank=rerank, rerank_top=rerank_top, k=k, verify=verify)
    [replies] = searcher.search([context], k, threshold)
    result = {"context": context, "replies": [each.to_json() for each in replies]}
    emit(result, as_json, lambda result: _text(result, threshold))


def _text(result: Mapping[str, Any], threshold: float | None) -> str:
    if result["replies"]:
        return show_replies(result["replies"])
    return "the index is empty" if threshold is None else f"no reply scores {threshold:g} or more"
