"""Python's literals, read as data: nothing is compiled or evaluated, so no text can run code or exhaust the stack.

Read are what `repr` writes for dictionaries with text keys, lists, texts (also with Python 2's `u` before them),
numbers, True, False and None. `ast.literal_eval` reads them too, but by way of Python's compiler, which a long or
deeply nested line can bring to its knees. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 32
"""Most lists and dictionaries within each other."""

_TOKEN = re.compile(
    r"""\s*+(?:
        (?P<text>[uU]?(?:'(?:[^'\\\n]++|\\.)*+'|"(?:[^"\\\n]++|\\.)*+"))
      | (?P<number>-?(?:0|[1-9]\d{0,300}+)(?:\.\d{0,300}+)?(?:[eE][-+]?\d{1,3}+)?L?)
      | (?P<name>True|False|None)\b
      | (?P<mark>[\[\]{},:])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))")
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NAMES = {"True": True, "False": False, "None": None}
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_literal(text: str) -> Any:
    """The value that a literal writes.

    Raises:
        ValueError: it is no such literal; says what stands where.
    """
    tokens = _tokens(text)
    value = _value(next(tokens), tokens, MAX_DEPTH)
    kind, token, place = next(tokens)
    if kind != "end":
        raise ValueError(f"{token[:20]} after the end of the value, at position {place}")
    return value


_Token = tuple[str, str, int]
"""Kind, text, and position in the line."""


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while match := _TOKEN.match(text, place):
        kind = match.lastgroup or ""
        yield kind, match[kind], match.start(kind)
        place = match.end()
    rest = text[place:].lstrip()
    raise ValueError(f"{rest[:20]!r} at position {len(text) - len(rest)}")


def _value(token: _Token, tokens: Iterator[_Token], depth: int) -> Any:
    kind, text, place = token
    if kind == "text":
        return _text(text)
    if kind == "number":
        digits = text.removesuffix("L")
        return int(digits) if digits.lstrip("-").isdecimal() else float(digits)
    if kind == "name":
        return _NAMES[text]
    if text not in ("[", "{"):
        raise ValueError(f"{text or 'the end'} instead of a value, at position {place}")
    if depth == 0:
        raise ValueError(f"more than {MAX_DEPTH} lists and dictionaries within each other")
    return _list(tokens, depth - 1) if text == "[" else _dictionary(tokens, depth - 1)


def _list(tokens: Iterator[_Token], depth: int) -> list[Any]:
    found = []
    while (token := next(tokens))[1] != "]":
        found.append(_value(token, tokens, depth))
        if _separator(tokens, "]"):
            break
    return found


def _dictionary(tokens: Iterator[_Token], depth: int) -> dict[str, Any]:
    found = {}
    while (token := next(tokens))[1] != "}":
        kind, key, place = token
        if kind != "text":
            raise ValueError(f"{key[:20] or 'the end'} instead of a key, at position {place}")
        _, colon, place = next(tokens)
        if colon != ":":
            raise ValueError(f"{colon[:20] or 'the end'} instead of a colon, at position {place}")
        found[_text(key)] = _value(next(tokens), tokens, depth)
        if _separator(tokens, "}"):
            break
    return found


def _separator(tokens: Iterator[_Token], end: str) -> bool:
    """Read what follows an item: True for the end, False for a comma."""
    _, mark, place = next(tokens)
    if mark not in (end, ","):
        raise ValueError(f"{mark[:20] or 'the end'} instead of a comma or {end}, at position {place}")
    return mark == end


def _text(token: str) -> str:
    body = token.lstrip("uU")[1:-1]
    if "\\" in body:
        body = _ESCAPE.sub(_unescaped, body)
    if _SURROGATE.search(body):  # Python 2 may write a character beyond U+FFFF as two halves
        body = body.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    return body


def _unescaped(match: re.Match[str]) -> str:
    *hexadecimal, octal, single = match.groups()
    for digits in hexadecimal:
        if digits:
            return chr(int(digits, 16))
    if octal:
        return chr(int(octal, 8))
    if single not in _ESCAPED:
        raise ValueError(f"\\{single} is not an escape that is read")
    return _ESCAPED[single]
