"""Personal data in texts: e-mail addresses, card numbers, IBANs and phone numbers, found by their form.

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
_CARD = re.compile(r"(?<![\w/=-])(?:[2-6]\d{3}([ -]?)\d{4}\1\d{4}\1\d{1,7}|3\d{3}([ -]?)\d{6}\2\d{5})(?![\w-])")
# With a country code; with a leading 0 or 00, if it is no date; as North America writes its numbers.
_PHONE = re.compile(
    r"(?<![\w+/=&-])(?:\+\d(?:[ ()./-]{0,2}\d){7,13}"
    r"|\(?(?!\d{1,2}[./-]\d{1,2}[./-])00?[1-9](?:[ ()/-]{0,2}\d){7,11}"
    r"|(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4})(?!\d)"
)


def redact(text: str, found: Counter[str] | None = None) -> str:
    """Replace personal data by <email>, <iban>, <card> and <phone>; count in `found` what is replaced."""
    if not _WORTH_A_LOOK.search(text):
        return text
    for kind, (pattern, length_of) in _KINDS.items():
        pieces, end = [], 0
        for match in pattern.finditer(text):
            if length := length_of(match[0]):
                pieces += [text[end : match.start()], f"<{kind}>"]
                end = match.start() + length
                if found is not None:
                    found[kind] += 1
        text = "".join([*pieces, text[end:]])
    return text


def redact_example(example: Example) -> Example:
    """Redact the texts of an example; its id and thread stay."""
    context, candidates = (tuple(map(redact, texts)) for texts in (example.context, example.candidates))
    return replace(example, context=context, response=redact(example.response), candidates=candidates)


def _iban_length(text: str) -> int:
    """Return the length of the longest beginning that is an IBAN (ISO 13616: the remainder by 97 is 1), else 0."""
    for end in [len(text), *(gap.start() for gap in reversed(list(re.finditer(" ", text))))]:
        plain = text[:end].replace(" ", "").upper()
        if 15 <= len(plain) <= 34 and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1:
            return end
    return 0


def _card_length(text: str) -> int:
    """Return the length of a text whose digits fulfil Luhn's check (ISO/IEC 7812), else 0."""
    digits = [int(c) for c in reversed(text) if c.isdecimal()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return len(text) if any(digits) and (sum(digits[::2]) + sum(doubled)) % 10 == 0 else 0


_KINDS: dict[str, tuple[re.Pattern[str], Callable[[str], int]]] = {
    "email": (_EMAIL, len), "iban": (_IBAN, _iban_length), "card": (_CARD, _card_length), "phone": (_PHONE, len),
}  # fmt: skip
KINDS = tuple(_KINDS)
