"""Raw dumps to examples: an example, the split of its conversation, and a reply.

A split is the same on every machine. Personal data in texts is known by its form.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from rejoinder.patterns import search_pattern

Split: TypeAlias = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")  # nothing is ever chosen on the test part
_WORD = search_pattern(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation so far and the response that followed."""

    context: tuple[str, ...]  # messages, oldest first: the history and, at the end, the input
    response: str
    id: str = ""  # unique within its source
    thread: str = ""  # its conversation (reply tree, product, file), which decides the split
    source: str = ""  # name of the corpus
    candidates: tuple[str, ...] = ()  # responses to choose from, where the data has them
    label: int | None = None  # index of the response among the candidates


@dataclass(frozen=True, slots=True)
class Candidate:
    """A reply to choose from."""

    text: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else came with the reply and comes back with it, of JSON types."""
    title: str = ""
    """Subject of the reply: the heading of an FAQ, the name or shortcut of a canned reply."""
    examples: tuple[tuple[str, ...], ...] = ()
    """Conversations that the reply answers, oldest message first; a question is one message."""
    learned: tuple[tuple[str, ...], ...] = ()
    """More of these, out of chats in which the reply was sent; `Index.forget` takes them away."""


def split_of(thread: str) -> Split:
    """Return the split of all examples of a thread.

    With u = (1 + md5(thread) mod 4096) / 4096: train below 0.88, validation below 0.9, else test.
    DATA19's published rule trains below 0.9: validation is cut from its training part, and the test
    part is its own.
    """
    share = thread_share(thread)
    if share < 0.88:
        return "train"
    return "valid" if share < 0.9 else "test"


def thread_share(thread: str) -> float:
    """Return the u of `split_of`: above 0 and up to 1, in steps of 1/4096."""
    return (1 + int(_md5(thread), 16) % 4096) / 4096


def content_thread(messages: Iterable[str]) -> str:
    """Return the MD5 of a conversation's text, in hexadecimal.

    White space is collapsed; blank messages are left out.
    """
    lines = (" ".join(message.split()) for message in messages)
    return _md5("\n".join(line for line in lines if line))


def conversation_thread(messages: Iterable[str]) -> str:
    """Return the MD5 of a conversation's words, on which slightly different copies agree."""
    return _md5(" ".join(word for message in messages for word in words_of(message)))


def words_of(text: str) -> list[str]:
    """Return the words by which texts are compared: runs of letters and digits, casefolded."""
    return _WORD.findall(text.casefold())


def text_key(text: str) -> str:
    """Return the key by which replies are compared.

    Letter case, spaces, punctuation and Unicode's forms (NFKC) do not count.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    letters = (" " if unicodedata.category(char)[0] == "P" else char for char in folded)
    return " ".join("".join(letters).split()) or folded


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


# Personal data in texts, by its form: e-mail addresses, card numbers, IBANs, phone numbers.
#
# Names and postal addresses are not found: that takes a language model, such as those of Presidio.

_WORTH_A_LOOK = search_pattern(r"@|\d\D?\d")
_EMAIL = search_pattern(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_IBAN = search_pattern(r"\b[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]{4}){2,7}(?: ?[A-Za-z0-9]{1,3})?\b")
_CARD = search_pattern(
    r"(?<![\w/=-])(?:[2-6]\d{3}([ -]?)\d{4}\1\d{4}\1\d{1,7}|3\d{3}([ -]?)\d{6}\2\d{5})(?![\w-])"
)
# With a country code; with a leading 0 or 00, if it is no date; in North American form.
_PHONE = search_pattern(
    r"(?<![\w+/=&-])(?:\+\d(?:[ ()./-]{0,2}\d){7,13}"
    r"|\(?(?!\d{1,2}[./-]\d{1,2}[./-])00?[1-9](?:[ ()/-]{0,2}\d){7,11}"
    r"|(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4})(?!\d)"
)


def redact(text: str, counts: Counter[str] | None = None) -> str:
    """Replace personal data by <email>, <iban>, <card> and <phone>; count it in `counts`."""
    if not _WORTH_A_LOOK.search(text):
        return text
    for kind, (pattern, length_of) in _KINDS.items():
        pieces = []
        end = 0
        for match in pattern.finditer(text):
            length = length_of(match[0])
            if length:
                pieces += [text[end : match.start()], f"<{kind}>"]
                end = match.start() + length
                if counts is not None:
                    counts[kind] += 1
        text = "".join([*pieces, text[end:]])
    return text


def redact_example(example: Example) -> Example:
    """Redact the texts of an example; its id and thread stay."""
    return replace(
        example,
        context=tuple(map(redact, example.context)),
        response=redact(example.response),
        candidates=tuple(map(redact, example.candidates)),
    )


def _iban_length(text: str) -> int:
    """Return the length of the longest prefix that is an IBAN (ISO 13616: mod 97 is 1), else 0."""
    gaps = [match.start() for match in re.finditer(" ", text)]
    for end in [len(text), *reversed(gaps)]:
        plain = text[:end].replace(" ", "").upper()
        digits = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
        if 15 <= len(plain) <= 34 and int(digits) % 97 == 1:
            return end
    return 0


def _card_length(text: str) -> int:
    """Return the length of a text whose digits fulfil Luhn's check (ISO/IEC 7812), else 0."""
    digits = [int(c) for c in reversed(text) if c.isdecimal()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return len(text) if any(digits) and (sum(digits[::2]) + sum(doubled)) % 10 == 0 else 0


_KINDS: dict[str, tuple[re.Pattern[str], Callable[[str], int]]] = {
    "email": (_EMAIL, len),
    "iban": (_IBAN, _iban_length),
    "card": (_CARD, _card_length),
    "phone": (_PHONE, len),
}
KINDS = tuple(_KINDS)
