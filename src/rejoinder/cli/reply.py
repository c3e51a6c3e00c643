"""`rejoinder reply` and `rejoinder chat`: the best replies of an index to a conversation."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeAlias

import typer

from rejoinder.cli.options import Json
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import printable

if TYPE_CHECKING:
    from rejoinder.retrieval.cascade import Searcher
    from rejoinder.retrieval.index import Index

IndexFolder: TypeAlias = Annotated[Path, typer.Argument(help="A folder that `rejoinder index` wrote.")]
Model: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Where the index's model is now, if it was moved.")
]
Rerank: TypeAlias = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Rank the index's best replies again with this slower model.")
]
RerankTop: TypeAlias = Annotated[
    int, typer.Option(min=1, metavar="N", help="With --rerank: how many of the best replies.")
]
Threshold: TypeAlias = Annotated[
    float | None, typer.Option(metavar="SCORE", help="Only replies of this score or more; cosines go from -1 to 1.")
]

HELP = """/back   take back the last message and its answer
/reset  start a new conversation
/help   show this
/quit   leave (so does Ctrl-D)"""


def reply(
    index: IndexFolder,
    messages: Annotated[
        list[str],
        typer.Argument(metavar="MESSAGE...", help="What was said, oldest first; - reads standard input, one a line."),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="How many replies at most.")] = 5,
    threshold: Threshold = None,
    model: Model = None,
    rerank: Rerank = None,
    rerank_top: RerankTop = 50,
    verify: Annotated[bool, typer.Option("--verify", help="Check all files of a large index first.")] = False,
    as_json: Json = False,
) -> None:
    """Find the best replies to a conversation: score, position and text of each.

    Example: rejoinder reply replies.index "Hi!" "How are you?" -k 3, or, with a slower model that ranks the best again,
    rejoinder reply replies.index "Hi!" --rerank runs/cross/model
    """
    context = list(read_messages(sys.stdin.buffer)) if messages == ["-"] else messages
    _check(context)
    [replies] = _open_searcher(index, model, rerank, rerank_top, k, verify).search([context], k, threshold)
    result = {"context": context, "replies": [each.to_json() for each in replies]}
    emit(result, as_json, lambda result: _show(result["replies"]) or _no_replies(threshold))


def chat(
    index: IndexFolder,
    k: Annotated[int, typer.Option("-k", min=1, help="How many replies to show; the best is the answer.")] = 4,
    threshold: Threshold = None,
    model: Model = None,
    rerank: Rerank = None,
    rerank_top: RerankTop = 50,
    as_json: Annotated[
        bool, typer.Option("--json", help="In the end print the conversation as one JSON object.")
    ] = False,
) -> None:
    """Talk: each line is a message; the answer is the best reply to the conversation so far. /help shows commands.

    Example: rejoinder chat replies.index
    """
    out = sys.stderr if as_json else sys.stdout

    def say(text: str) -> None:
        print(printable(text), file=out, flush=True)

    searcher = _open_searcher(index, model, rerank, rerank_top, k)
    say(f"{len(searcher):,} replies; /help shows commands, /quit leaves")
    typed = sys.stdin.isatty()
    turns: list[dict[str, Any]] = []
    for line in _typed("" if as_json else "> ") if typed else read_messages(sys.stdin.buffer):
        if not typed:
            say(f"> {line}")  # so that what comes out reads as a conversation
        if line == "/quit":
            break
        say(_command(line, turns) if line.startswith("/") else _answer(searcher, turns, line, k, threshold))
    if as_json:
        emit({"turns": turns}, as_json, lambda _: "")


def _command(line: str, turns: list[dict[str, Any]]) -> str:
    if line == "/help":
        return HELP
    if line == "/reset":
        turns.clear()
        return "(a new conversation)"
    if line == "/back":
        return f"(took back: {turns.pop()['message']})" if turns else "(nothing to take back)"
    return f"(no command {line}; /help shows them)"


def _answer(searcher: Searcher, turns: list[dict[str, Any]], line: str, k: int, threshold: float | None) -> str:
    """Add a turn, `message` and `replies`, and return what to show of it."""
    try:
        _check([line])
    except InputError as error:
        return str(error)
    context = [text for turn in turns for text in (turn["message"], *(each["text"] for each in turn["replies"][:1]))]
    [replies] = searcher.search([[*context, line]], k, threshold)
    turns.append({"message": line, "replies": [each.to_json() for each in replies]})
    return _show(turns[-1]["replies"]) or f"({_no_replies(threshold)})"


def _typed(prompt: str) -> Iterator[str]:
    """Yield what is typed, line by line, until Ctrl-D or Ctrl-C."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 (makes the arrow keys work in input())

    while True:
        try:
            line = input(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return
        if line:
            yield line


def open_index(folder: Path, model: str | None, *, verify: bool = False) -> Index:
    """Open an index with the model that it names, or with the one at `model`."""
    import rejoinder
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.manifest import read_manifest

    encoder = rejoinder.load(model or read_manifest(folder).model.locate(folder))
    return Index.open(folder, encoder, verify=True if verify else None)


def _open_searcher(
    folder: Path, model: str | None, rerank: str | None, rerank_top: int, k: int, verify: bool = False
) -> Searcher:
    if rerank is None:
        return open_index(folder, model, verify=verify)
    if k > rerank_top:
        raise InputError(f"-k {k} asks for more replies than --rerank-top {rerank_top} ranks again; raise --rerank-top")
    from rejoinder.cli.rankers import Rankers
    from rejoinder.retrieval.cascade import Cascade

    return Cascade(open_index(folder, model, verify=verify), Rankers().ranker(rerank), rerank_top)


def read_messages(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of standard input that are not blank; refuse what is not UTF-8."""
    for number, line in enumerate(stream, 1):
        try:
            message = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(f"standard input:{number}: not UTF-8 ({error.reason}); send UTF-8 text") from None
        if message:
            yield message


def _check(messages: Sequence[str]) -> None:
    if not messages:
        raise InputError("no message; give the conversation's messages, oldest first")
    for number, message in enumerate(messages, 1):
        if not message.strip():
            raise InputError(f"message {number} is blank; leave it out")
        try:
            message.encode()
        except UnicodeEncodeError:
            raise InputError(f"message {number} is not UTF-8 text; check the terminal's encoding") from None


def _show(replies: Iterable[dict[str, Any]]) -> str:
    blocks = []
    for each in replies:
        text = each["text"].replace("\n", "\n" + " " * 16)
        blocks.append(f"{each['score']:6.3f}  {'#' + str(each['position']):<8}{text}")
        if each["payload"]:
            blocks.append(" " * 16 + json.dumps(each["payload"], ensure_ascii=False))
    return "\n".join(blocks)


def _no_replies(threshold: float | None) -> str:
    return "the index is empty" if threshold is None else f"no reply scores {threshold:g} or more"
