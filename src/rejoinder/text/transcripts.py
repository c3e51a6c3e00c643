"""A chat that was pasted into a message, of which the customer's lines are read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rejoinder.patterns import MatchPattern, match_pattern

LEAST_SAID = 3  # words behind a speaker in some line of each side: forms have a name there
_LABEL = match_pattern(r"[^\W\d_][\w ]{0,20}: ?\S")
_AGENT = "agent|support|operator|(?:chat|ro)?bot|assistant|adviser|advisor|representative|staff"
_CUSTOMER = "customer|visitor|client|user|guest|me|patient|member"


def _speaking(roles: str) -> MatchPattern[str]:
    """Return a pattern of what stands before a line: "[10:01] Lisa (Support):", "Agent Lisa:"."""
    stamp = r"(?:\[[^\[\]\n]{1,30}\]|\(?\d\d?[:.]\d\d[^\s\w]{0,2}) "
    named = rf"[^\s:()\n]{{1,20}}(?: [^\s:()\n]{{1,20}})? \((?:{roles})\)"
    name = r"(?-i:(?: [^\W\d_a-z]\w{0,20})?)"
    return match_pattern(rf"(?i)(?:{stamp})?(?:(?:{roles}){name}|{named}): ?")


_AGENTS = _speaking(_AGENT)
_CUSTOMERS = _speaking(_CUSTOMER)


def customer_lines(text: str) -> str:
    r"""Return what the customer says in a pasted chat of both sides; another text as it is.

    >>> customer_lines("Agent: Do you want to cancel it?\nVisitor: No, I lost it")
    'No, I lost it'
    """
    if "\n" not in text:
        return text
    lines = [line.strip() for line in text.split("\n")]
    spoken = [(_AGENTS.match(line), _CUSTOMERS.match(line)) for line in lines]
    sides = zip(*spoken, strict=True)
    if not all(any(map(_says, lines, side)) for side in sides) or _is_form(lines, spoken):
        return text
    last = max(number for number, sides in enumerate(spoken) if any(sides))
    kept: list[str] = []
    is_customer = True  # what stands above the chat, and below its last line
    for number, (line, (agent, customer)) in enumerate(zip(lines, spoken, strict=True)):
        if agent or customer:
            is_customer = customer is not None
        if is_customer or number > last:
            kept.append(line[customer.end() :] if customer else line)
    return "\n".join(kept)


def _says(line: str, speaker: re.Match[str] | None) -> bool:
    """Return whether a line has more than a name behind its speaker."""
    return speaker is not None and len(line[speaker.end() :].split()) >= LEAST_SAID


def _is_form(lines: Sequence[str], spoken: Sequence[tuple[re.Match[str] | None, ...]]) -> bool:
    """Return whether other lines have labels too: "Problem: it broke"."""
    return any(
        _LABEL.match(line) is not None and not any(sides)
        for line, sides in zip(lines, spoken, strict=True)
    )
