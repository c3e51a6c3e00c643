"""`rejoinder chat`: talk to an index."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from rejoinder.cli.reply import (
    IndexArgument,
    ModelOption,
    RerankOption,
    RerankTopOption,
    check_messages,
    no_replies,
    open_searcher,
    read_messages,
    show_replies,
)
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import printable

if TYPE_CHECKING:
    from rejoinder.retrieval.cascade import Searcher

HELP = """/back   take back the last message and its answer
/reset  start a new conversation
/help   show this
/quit   leave (so does Ctrl-D)"""


def chat(
    index: IndexArgument,
    k: Annotated[int, typer.Option("-k", min=1, help="How many replies to show; the best is the answer.")] = 4,
    threshold: Annotated[
        float | None, typer.Option(metavar="SCORE", help="Answer only with replies of this score or more.")
    ] = None,
    model: ModelOption = None,
    rerank: RerankOption = None,
    rerank_top: RerankTopOption = 50,
    as_json: Annotated[
        bool, typer.Option("--json", help="In the end print the conversation as one JSON object.")
    ] = False,
) -> None:
    """Talk: each line is a message; the answer is the best reply to the conversation so far. /help shows commands.

    Example: rejoinder chat replies.index
    """
    out = sys.stderr if as_json else sys.stdout
    searcher = open_searcher(index, model, rerank=rerank, rerank_top=rerank_top, k=k)
    conversation = Conversation(searcher, k, threshold)
    _say(out, f"{len(searcher):,} replies; /help shows commands, /quit leaves")
    for line in _typed("" if as_json else "> ") if sys.stdin.isatty() else _piped(out):
        if line == "/quit":
            break
        _say(out, conversation.take(line))
    if as_json:
        emit({"turns": conversation.turns}, as_json, lambda _: "")


class Conversation:
    """A conversation and what it can do with a line that was typed.

    Args:
        searcher: where the answers come from.
        k: replies to show.
        threshold: smallest score of a reply.
    """

    def __init__(self, searcher: Searcher, k: int, threshold: float | None) -> None:
        self.searcher = searcher
        self.k = k
        self.threshold = threshold
        self.turns: list[dict[str, Any]] = []
        """Of each message: `message`, and `replies`, best first."""

    @property
    def context(self) -> list[str]:
        """All messages so far, the answers among them, oldest first."""
        messages = []
        for turn in self.turns:
            messages.append(turn["message"])
            messages.extend(reply["text"] for reply in turn["replies"][:1])
        return messages

    def take(self, line: str) -> str:
        """Do what a line asks for, and return what to show."""
        if line.startswith("/"):
            return self._command(line)
        try:
            check_messages([line])
        except InputError as error:
            return str(error)
        [replies] = self.searcher.search([[*self.context, line]], self.k, self.threshold)
        self.turns.append({"message": line, "replies": [reply.to_json() for reply in replies]})
        return show_replies(self.turns[-1]["replies"]) or f"({no_replies(self.threshold)})"

    def _command(self, line: str) -> str:
        if line == "/help":
            return HELP
        if line == "/reset":
            self.turns.clear()
            return "(a new conversation)"
        if line == "/back":
            if not self.turns:
                return "(nothing to take back)"
            return f"(took back: {self.turns.pop()['message']})"
        return f"(no command {line}; /help shows them)"


def _say(out: TextIO, text: str) -> None:
    print(printable(text), file=out, flush=True)


def _piped(out: TextIO) -> Iterator[str]:
    """The lines of standard input, each shown, so that what comes out reads as a conversation."""
    for line in read_messages(sys.stdin.buffer):
        _say(out, f"> {line}")
        yield line


def _typed(prompt: str) -> Iterator[str]:
    """What is typed, line by line, until Ctrl-D or Ctrl-C leaves."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 (makes the arrow keys work in input())

    while True:
        try:
            line = input(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            _say(sys.stderr, "")
            return
        if line:
            yield line
