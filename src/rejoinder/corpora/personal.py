"""Personal data in texts, by its form: e-mail addresses, card numbers, IBANs, phone numbers.

Names and postal addresses are not found: that takes a language model, such as those of Presidio.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from rejoinder.corpora.example import Example

_WORTH_A_LOOK = re.compile(r"@|\d\D?\d")
_EMAIL = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_IBAN = re.compile(r"\b[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]{4}){2,7}(?: ?[A-Za-z0-9]{1,3})?\b")
_CARD = re.compile(
    r"(?<![\w/=-])(?:[2-6]\d{3}([ -]?)\d{4}\1\d{4}\1\d{1,7}|3\d{3}([ -]?)\d{6}\2\d{5})(?![\w-])"
)
# With a country code; with a leading 0 or 00, if it is no date; in North American form.
_PHONE = re.compile(
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
