"""What `reply` and `chat` have in common: opening an index with its model, and showing replies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from rejoinder.errors import InputError

if TYPE_CHECKING:
    from rejoinder.retrieval.cascade import Searcher
    from rejoinder.retrieval.index import Index

RerankOption = Annotated[
    str | None,
    typer.Option("--rerank", metavar="MODEL", help="Rank the index's best replies again with this slower model."),
]
RerankTopOption = Annotated[
    int, typer.Option("--rerank-top", min=1, metavar="N", help="With --rerank: so many of the index's best replies.")
]


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
