"""Texts that make a regular expression, or code that reads texts, take as long as it can.

They are repeated fragments: what the expression's own parts match, and letters that begin something
(a tag, a comment, a quote) that never ends.
"""

from __future__ import annotations

import gc
import itertools
import re
import re._constants as sre
import re._parser as parser
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

SHORT = 5_000
LONG = 50_000
LIMIT = 0.5  # seconds of processor time for a text of 50,000 letters
PACE = 0.0025  # in which Python sums up as many letters; a slower machine has more time
PATIENCE = 10.0  # seconds after which a call is ended
GROWTH = 25.0  # times as long for ten times the letters; the square would be 100

# What begins or divides something in one of the forms that are read.
COMMON = [
    " ", "\n", "\t", "\r\n", "0", "a", "A", "é", ".", "-", ":", "@", "[", "(", "{", "<", '"', "'",
    "</", "<!--", "<a", "<b>", "&", "&#", "{{", "{%", "[x](", "](", "**", "> ", ">", "# ", "|", "|-",
    "\\", "\0", "\u200e", "\xa0", "=?", "=?utf-8?q?a?= ", "a: ", "- ", "0 ", "0-", "0.", "1/", "a.",
    "a@", "re ", "re:", "Le a ", "On a ", "<name>", "!", "?", "hi ", "\U0001f600", "DE00 ", "_", "%",
    "/", "=", "`", "~", "$", ",", ";", "+", "\u0661", "\uff11", "x", "https://",
]  # fmt: skip
ENDS = ["", "x", "?", "\x01"]

_CATEGORIES = {
    sre.CATEGORY_DIGIT: "0",
    sre.CATEGORY_NOT_DIGIT: "a",
    sre.CATEGORY_SPACE: " ",
    sre.CATEGORY_NOT_SPACE: "a",
    sre.CATEGORY_WORD: "a",
    sre.CATEGORY_NOT_WORD: "-",
}


def fragments(expression: str | bytes, flags: int = 0) -> list[str]:
    """Texts that the parts of an expression match: of each sequence its parts and its beginnings."""
    text = expression.decode("latin-1") if isinstance(expression, bytes) else expression
    found: dict[str, None] = {}
    _sample(parser.parse(text, flags & ~re.UNICODE), found)
    return [fragment for fragment in found if fragment]


def _sample(tree: Any, found: dict[str, None]) -> str:
    """Return a text that a tree matches; add the beginnings of its sequences to `found`."""
    said = ""
    for operation, argument in tree:
        piece = _piece(operation, argument, found)
        said += piece
        for fragment in (piece, said):
            found.setdefault(fragment[:60])
    return said


def _piece(operation: Any, argument: Any, found: dict[str, None]) -> str:
    if operation in _CHARACTERS:
        return _CHARACTERS[operation](argument)
    if operation is sre.IN:
        return _member(argument, found)
    if operation is sre.BRANCH:
        return list(_sample(branch, found) for branch in argument[1])[0]  # noqa: C400, RUF015 (all are looked at)
    if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        least, most, tree = argument
        return _sample(tree, found) * max(1, min(int(least) or 1, int(most), 20))
    if operation in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
        return _sample(argument[-1] if operation is sre.SUBPATTERN else argument, found)
    if operation in (sre.ASSERT, sre.ASSERT_NOT):
        _sample(argument[1], found)
    return ""


_CHARACTERS: dict[Any, Callable[[Any], str]] = {
    sre.LITERAL: chr,
    sre.NOT_LITERAL: lambda code: "a" if code != ord("a") else "b",
    sre.ANY: lambda _: "a",
    sre.CATEGORY: lambda category: _CATEGORIES.get(category, "a"),
}


def _member(items: Any, found: dict[str, None]) -> str:
    members = []
    for operation, argument in items:
        if operation is sre.LITERAL:
            members.append(chr(argument))
        elif operation is sre.RANGE:
            members.append(chr(argument[0]))
        elif operation is sre.CATEGORY:
            members.append(_CATEGORIES.get(argument, "a"))
    if items[0][0] is sre.NEGATE:
        for other in members[:6]:
            found.setdefault(other)
        return next(char for char in "a \x01-0<\u4e00" if char not in members)
    for other in members[:6]:
        found.setdefault(other)
    return members[0]


def texts(parts: Iterable[str], length: int, *, pairs: bool = True) -> Iterator[str]:
    """Texts of so many letters: each part and each two parts repeated, with several ends."""
    listed = list(dict.fromkeys(parts))
    bodies = [*listed, *(map("".join, itertools.permutations(listed, 2)) if pairs else ())]
    for body in bodies:
        repeated = (body * (length // len(body) + 1))[:length]
        for end in ENDS:
            yield repeated + end
    if pairs:
        for start, body in itertools.permutations(listed, 2):
            repeated = (body * (length // len(body) + 1))[:length]
            yield from (f"{start}{repeated}{end}" for end in ("\x01", "?"))


def seconds(function: Callable[[], object]) -> float:
    """Processor time of a call; it is ended after a while, as expressions can be.

    What other tests have left is not searched for garbage meanwhile, as in `timeit`.
    """
    collects = gc.isenabled()
    gc.disable()
    signal.signal(signal.SIGVTALRM, _late)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    start = time.thread_time()
    try:
        function()
    except _LateError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if collects:
            gc.enable()
    return time.thread_time() - start


def limit() -> float:
    """Processor time that a text of 50,000 letters may take now.

    It is `LIMIT`, or as much longer as this machine is slower than `PACE`.
    """
    pace = min(seconds(lambda: sum(ord(letter) for letter in "a" * LONG)) for _ in range(3))
    return LIMIT * max(1.0, pace / PACE)


def timed(function: Callable[[], object]) -> tuple[float, float]:
    """Processor time of a call, and the limit then: of the run that was least disturbed.

    A call is repeated unless it takes three times its limit.
    """
    first = (seconds(function), limit())
    if first[0] >= 3 * first[1]:
        return first
    again = [(seconds(function), limit()) for _ in range(2)]
    return min([first, *again], key=lambda run: run[0] / run[1])


class _LateError(Exception):
    pass


def _late(*_: object) -> None:
    raise _LateError


def slowest(function: Callable[[str], object], listed: Iterable[str]) -> int:
    """Index of the text for which a function takes longest; the first that takes `limit()`."""
    worst = (0.0, 0)
    most = limit()
    for number, text in enumerate(listed):
        worst = max(worst, (seconds(lambda text=text: function(text)), number))
        if worst[0] > most:
            break
    return worst[1]


def check_linear(function: Callable[[str], object], make: Callable[[int], Iterable[str]]) -> None:
    """Assert that a function takes little time for long texts, and time that grows as they do.

    `make` gives the same texts in any length: the one that takes longest is made long.
    """
    number = slowest(function, make(SHORT))
    short = next(itertools.islice(make(SHORT), number, None))
    long = next(itertools.islice(make(LONG), number, None))
    few = min(seconds(lambda: function(short)) for _ in range(3))
    many, most = timed(lambda: function(long))
    told = f"{short[:30]!r}...{short[-6:]!r}: {few:.4f} s, of {LONG:,} letters {many:.4f} s"
    assert many < most, told
    assert many < max(GROWTH * few, 0.1), told
