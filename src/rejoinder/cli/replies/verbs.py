"""`rejoinder reply` and `chat`: the best replies of an index to a conversation."""

from __future__ import annotations

import contextlib
import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeAlias

import typer

from rejoinder.cli.arguments import (
    Earlier,
    EngineOption,
    Filter,
    HybridWeight,
    IndexName,
    Json,
    MinimumConfidence,
    MinimumScore,
    Omit,
    Omitted,
    RankerName,
)
from rejoinder.cli.models import open_index, report_truncated
from rejoinder.cli.replies.conditions import why_none_pass
from rejoinder.cli.replies.lines import show_answer
from rejoinder.cli.replies.talk import RECENT, Talk
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import counted, note, printable, track

if TYPE_CHECKING:
    from rejoinder.conversations import Conversation
    from rejoinder.encoders.engines import EngineName
    from rejoinder.retrieval.calibration import Answer
    from rejoinder.retrieval.cascade import Cascade
    from rejoinder.retrieval.index import Index
    from rejoinder.retrieval.options import SearchOptions

AnyIndex: TypeAlias = "Index | Cascade"
Finder: TypeAlias = "Callable[[Sequence[Conversation]], list[Answer]]"
_AT_ONCE = 256  # conversations of --input that are searched together

HELP = """/back   take back the last message and its answer
/reset  start a new conversation
/help   show this
/quit   leave (so does Ctrl-D)"""


Messages: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MESSAGE...", help="Messages, oldest first; -: standard input, one per line."
    ),
]
File: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--input", metavar="FILE", help="JSONL file of conversations to answer; prints JSONL."
    ),
]


K: TypeAlias = Annotated[
    int, typer.Option("-k", min=1, metavar="N", help="Maximum number of replies.")
]


Diversity: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0, max=1, metavar="D", help="Diversity of the replies, from 0 (the best ones) to 1."
    ),
]
WhyOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--why", help=("Show the example or part of each reply most similar to the conversation.")
    ),
]


def reply(
    index: IndexName,
    messages: Messages = None,
    file: File = None,
    k: K = 5,
    minimum_score: MinimumScore = None,
    minimum_confidence: MinimumConfidence = None,
    history: Earlier = None,
    omit: Omit = "copies",
    where: Filter = None,
    diversity: Diversity = 0,
    hybrid: HybridWeight = 0,
    why: WhyOption = False,
    ranker: RankerName = None,
    engine: EngineOption = "auto",
    as_json: Json = False,
) -> None:
    """Find the best replies to a conversation: score, position and text of each.

    Example: rejoinder reply replies.index "Hi!" "How are you?" -k 3. With a slower model that ranks
    the best again: rejoinder reply replies.index "Hi!" --ranker runs/cross/model

    A line of --input FILE is a conversation: ["Hi!", "How are you?"], or {"id": 7, "messages":
    ["Hi!", "How are you?"]} with an optional id
    """
    passing = _parse_where(where)
    if file is not None and messages:
        raise InputError("--input FILE holds the conversations; leave the messages out, or --input")
    options = _options(
        k=k,
        minimum_score=minimum_score,
        minimum_confidence=minimum_confidence,
        history=history,
        omit=omit,
        where=passing,
        diversity=diversity,
        hybrid=hybrid,
        why=why,
        ranker=ranker,
    )
    asked = _one(messages or []) if file is None else _read_conversations(file)
    searcher = _open_searcher(index, ranker, options.rerank, engine)
    first: Any = getattr(searcher, "first", searcher)
    lowest = _lowest(first, minimum_score)
    find = _finder(searcher, options)
    none_pass = why_none_pass(first, passing)
    fewest = k
    for fields, conversation, answer in _answers(find, asked):
        fewest = min(fewest, len(answer.replies))
        result = {
            **fields,
            "context": conversation,
            **_to_json(answer),
            **_notes(first, options, conversation, answer),
        }
        emit(
            result,
            as_json or file is not None,
            lambda it: show_answer(it, lowest, minimum_confidence, where, none_pass),
        )
    report_truncated(first.encoder, "messages")
    if passing and fewest < k:
        note(f"{first.count(passing):,} of {len(first):,} replies pass --where")


def _notes(
    index: Any, options: SearchOptions, conversation: Conversation, answer: Answer
) -> dict[str, Any]:
    """Return how a message was read, and why there is no reply, where a program can tell."""
    [notes] = index.notes([conversation], options.history)
    reason = None if answer.replies else index.silence(conversation, options)
    told = {"notes": notes, "reason": reason}
    return {name: value for name, value in told.items() if value}


def _read_conversations(file: Path) -> list[tuple[dict[str, Any], Conversation]]:
    from rejoinder.retrieval.conversation_file import read_conversations

    return read_conversations(file)


def _one(messages: list[str]) -> list[tuple[dict[str, Any], Conversation]]:
    conversation = list(read_messages(sys.stdin.buffer)) if messages == ["-"] else messages
    _check(conversation)
    return [({}, conversation)]


def _answers(
    find: Finder, asked: list[tuple[dict[str, Any], Conversation]]
) -> Iterator[tuple[dict[str, Any], Conversation, Answer]]:
    """Answer conversations in batches, with a progress bar if they are many."""
    with (
        track("Answering", len(asked), "conversations")
        if len(asked) > 1
        else contextlib.nullcontext() as advance
    ):
        for part in (asked[start : start + _AT_ONCE] for start in range(0, len(asked), _AT_ONCE)):
            answers = find([conversation for _, conversation in part])
            yield from (
                (fields, conversation, answer)
                for (fields, conversation), answer in zip(part, answers, strict=True)
            )
            if advance is not None:
                advance(len(part))


def chat(
    index: IndexName,
    k: Annotated[
        int, typer.Option("-k", min=1, metavar="N", help="Show N replies; the best is the answer.")
    ] = 4,
    minimum_score: MinimumScore = None,
    minimum_confidence: MinimumConfidence = None,
    history: Earlier = None,
    omit: Omit = "both",
    where: Filter = None,
    hybrid: HybridWeight = 0,
    ranker: RankerName = None,
    engine: EngineOption = "auto",
    as_json: Json = False,
) -> None:
    """Chat: each line is a message, answered by the best reply to the whole conversation.

    /help shows commands.

    Example: rejoinder chat replies.index
    """
    out = sys.stderr if as_json else sys.stdout

    def say(text: str) -> None:
        print(printable(text), file=out, flush=True)

    passing = _parse_where(where)
    options = _options(
        k=k,
        minimum_score=minimum_score,
        minimum_confidence=minimum_confidence,
        history=history,
        omit=omit,
        where=passing,
        hybrid=hybrid,
        ranker=ranker,
    )
    searcher = _open_searcher(index, ranker, options.rerank, engine)
    first: Any = getattr(searcher, "first", searcher)
    find = _finder(searcher, options)
    lowest = _lowest(first, minimum_score)
    notes = partial(_notes, first, options)
    show = partial(
        show_answer,
        lowest=lowest,
        minimum_confidence=minimum_confidence,
        where=where,
        none_pass=why_none_pass(first, passing),
    )
    count = counted(first.count(passing), "reply", "replies")
    say(f"{count}; /help shows commands, /quit leaves")
    typed = sys.stdin.isatty()
    talk = Talk(RECENT if history is None else max(RECENT, history))
    for line in _typed("" if as_json else "> ") if typed else read_messages(sys.stdin.buffer):
        if not typed:
            say(f"> {line}")  # so that the output reads as a conversation
        if line == "/quit":
            break
        if line.startswith("/"):
            say(_command(line, talk))
        else:
            say(_answer(find, talk, line, notes, show))
    if as_json:
        emit({"turns": talk.turns}, as_json, lambda _: "")


def _command(line: str, talk: Talk) -> str:
    if line == "/help":
        return HELP
    if line == "/reset":
        talk.clear()
        return "(a new conversation)"
    if line == "/back":
        return f"(took back: {talk.pop()['message']})" if talk.turns else "(nothing to take back)"
    return f"(no command {line}; /help shows them)"


def _answer(
    find: Finder,
    talk: Talk,
    line: str,
    notes: Callable[[Conversation, Answer], dict[str, Any]],
    show: Callable[[Mapping[str, Any]], str],
) -> str:
    """Add a turn and return what to show of it, `none` if there is no reply."""
    try:
        _check([line])
    except InputError as error:
        return str(error)
    [answer] = find([conversation := talk.asked(line)])
    talk.append(turn := {"message": line, **_to_json(answer), **notes(conversation, answer)})
    shown = show(turn)
    return shown if turn["replies"] else f"({shown})"


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


def _options(*, omit: Omitted, ranker: str | None, k: int, **values: Any) -> SearchOptions:
    from rejoinder.retrieval.options import RERANKED, SearchOptions

    return SearchOptions(
        k=k,
        no_repeat=omit in ("repeats", "both"),
        distinct=omit in ("copies", "both"),
        rerank=0 if ranker is None else max(k, RERANKED),
        **values,
    )


def _lowest(index: Index, minimum_score: float | None) -> float | None:
    """Return the lowest score that a search of an index gives, if there is one."""
    head = index.manifest.head
    return head.minimum_score if minimum_score is None and head is not None else minimum_score


def _open_searcher(name: str, ranker: str | None, count: int, engine: EngineName) -> AnyIndex:
    index = open_index(name, engine=engine, light=True)
    if ranker is None:
        return index
    from rejoinder.cli.models import OpenRankers
    from rejoinder.retrieval.cascade import Cascade

    return Cascade(index, OpenRankers().ranker(ranker), count)


def _finder(searcher: AnyIndex, options: SearchOptions) -> Finder:
    """Return the search that answers conversations."""
    from rejoinder.retrieval.calibration import Answer, CalibratedIndex
    from rejoinder.retrieval.cascade import Cascade

    if options.minimum_confidence is None:
        return lambda conversations: [
            Answer(replies, None) for replies in searcher.find(conversations, options)
        ]
    assert not isinstance(searcher, Cascade)  # `SearchOptions` refuses both
    calibrated = CalibratedIndex(searcher)
    calibrated.with_history(options)  # fail before standard input is read
    return lambda conversations: calibrated.find(conversations, options)


def read_messages(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of standard input that are not blank; refuse what is not UTF-8."""
    for number, line in enumerate(stream, 1):
        try:
            # as in files, the first line may begin with a mark of the encoding
            message = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(
                f"standard input:{number}: not UTF-8 ({error.reason}); send UTF-8 text"
            ) from None
        if message:
            yield message


def _parse_where(options: list[str] | None) -> dict[str, list[str]] | None:
    """Read FIELD=VALUE,... of --where; a value in double quotes may hold commas."""
    where: dict[str, list[str]] = {}
    for option in options or ():
        name, equals, values = option.partition("=")
        if not equals or not name:
            raise InputError(
                f"--where {option!r}: write FIELD=VALUE, as in --where team=billing,sales"
            )
        if name in where:
            raise InputError(
                f"--where names {name} twice; values after commas mean any of them: {name}=A,B"
            )
        try:
            where[name] = next(csv.reader([values or '""']))
        except csv.Error as error:
            raise InputError(f"--where {option!r}: {error}") from None
    return where or None


def _check(messages: Sequence[str]) -> None:
    if not messages:
        raise InputError("no message; give the conversation's messages, oldest first")
    for number, message in enumerate(messages, 1):
        if not message.strip():
            raise InputError(f"message {number} is blank; leave it out")
        try:
            message.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"message {number} is not UTF-8 text; check the terminal's encoding"
            ) from None


def _to_json(answer: Answer) -> dict[str, Any]:
    sure = {} if answer.confidence is None else {"confidence": answer.confidence}
    return {**sure, "replies": [candidate.to_json() for candidate in answer.replies]}
