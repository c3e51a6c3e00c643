"""`rejoinder reply`: the best replies to a conversation; and what `chat` has in common with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from rejoinder.cli.shell import emit
from rejoinder.errors import InputError

if TYPE_CHECKING:
    from rejoinder.retrieval.cascade import Searcher
    from rejoinder.retrieval.index import Index

RerankOption = Annotated[
    str | None,
    typer.Option("--rerank", metavar="MODEL", help="Rank the index's best replies again with this slower model."),
]
RerankTopOption = Annotated[
    int, typer.Option("--rerank-top", min=1, metavar="N", help="With --rerank: how many of the best replies.")
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="FOLDER", help="Where the index's model is now, if it was moved.")
]
IndexArgument = Annotated[Path, typer.Argument(help="A folder that `rejoinder index` wrote.")]


def reply(
    index: IndexArgument,
    messages: Annotated[
        list[str],
        typer.Argument(metavar="MESSAGE...", help="What was said, oldest first; - reads standard input, one a line."),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="How many replies at most.")] = 5,
    threshold: Annotated[
        float | None, typer.Option(metavar="SCORE", help="Only replies of this score or more; cosines go from -1 to 1.")
    ] = None,
    model: ModelOption = None,
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
    emit(result, as_json, lambda result: show_replies(result["replies"]) or no_replies(threshold))


def open_index(folder: Path, model: str | None, *, verify: bool = False) -> Index:
    """Open an index with the model that it names, or with the one at `model`.

    Raises:
        InputError: there is no such index or model, or they do not belong together.
    """
    import rejoinder
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.manifest import read_manifest

    record = read_manifest(folder).model
    encoder = rejoinder.load(model or record.locate(folder))
    return Index.open(folder, encoder, verify=True if verify else None)


def open_searcher(
    folder: Path, model: str | None, *, rerank: str | None, rerank_top: int, k: int, verify: bool = False
) -> Searcher:
    """Open an index as `open_index` does, and the model that ranks its best replies again, if one is named.

    Raises:
        InputError: as `open_index`; or more replies are asked for than are ranked again.
    """
    if rerank is None:
        return open_index(folder, model, verify=verify)
    if k > rerank_top:
        raise InputError(f"-k {k} asks for more replies than --rerank-top {rerank_top} ranks again; raise --rerank-top")
    from rejoinder.cli.rankers import Rankers
    from rejoinder.retrieval.cascade import Cascade

    return Cascade(open_index(folder, model, verify=verify), Rankers().ranker(rerank), rerank_top)


def read_messages(stream: BinaryIO) -> Iterator[str]:
    """Messages from a stream, one a line, without blank ones.

    Raises:
        InputError: a line is not UTF-8.
    """
    for number, line in enumerate(stream, 1):
        try:
            message = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(f"standard input:{number}: not UTF-8 ({error.reason}); send UTF-8 text") from None
        if message:
            yield message


def check_messages(messages: Sequence[str]) -> None:
    """Refuse a context without messages, or with a message that says nothing or is no text.

    Raises:
        InputError: names the message.
    """
    if not messages:
        raise InputError("no message; give the conversation's messages, oldest first")
    for number, message in enumerate(messages, 1):
        if not message.strip():
            raise InputError(f"message {number} is blank; leave it out")
        try:
            message.encode()
        except UnicodeEncodeError:
            raise InputError(f"message {number} is not UTF-8 text; check the terminal's encoding") from None


def show_replies(replies: Iterable[dict[str, Any]]) -> str:
    """Replies for people: score, position, text, and the payload where there is one."""
    blocks = []
    for reply in replies:
        text = reply["text"].replace("\n", "\n" + " " * 16)
        blocks.append(f"{reply['score']:6.3f}  {'#' + str(reply['position']):<8}{text}")
        if reply["payload"]:
            blocks.append(" " * 16 + json.dumps(reply["payload"], ensure_ascii=False))
    return "\n".join(blocks)


def no_replies(threshold: float | None) -> str:
    """Say why there are none."""
    return "the index is empty" if threshold is None else f"no reply scores {threshold:g} or more"
