"""What a mail says by itself, without the mails that it quotes below.

The lines that begin a quoted mail ("On ... wrote:") are known by the expressions of
mail-parser-reply, in its languages. They take the square of a line's length and more, so they are
tried only where such a line may begin, on as many letters as it may have.
"""

from __future__ import annotations

import functools
import re

from rejoinder.patterns import match_pattern

MAX_QUOTE_LINES = 150  # lines of a mail that may begin a quoted mail
MAX_QUOTE_LINE = 300  # letters of these with the lines that follow
_LANGUAGES = ["en", "de", "fr", "it", "es", "nl", "da", "sv", "pl", "cs", "ja", "ko", "zh"]
_LINES = 4  # of a header of a quoted mail
_FIELD = match_pattern(r"[> ]*+[* ]*+[^\s:>*][^:\n]{0,30}:")  # "From:" in any language
_ORIGINAL = "-----"  # Original Message
_RULE = frozenset("_-")
_RULE_LENGTH = 32


def newest_text(text: str) -> str:
    """Return the text of a mail above the first mail that it quotes."""
    lines = _without_rules([line.strip() for line in text.replace("\r\n", "\n").split("\n")])
    ends = [line.endswith((":", "\uff1a")) for line in lines]
    tried = 0
    after = 0  # the header of a mail that is nothing but a quoted one
    for number in range(len(lines)):
        shown = lines[number : number + _LINES]
        may_begin = (
            any(ends[number : number + _LINES - 1])
            or _FIELD.match(lines[number]) is not None
            or lines[number].startswith(_ORIGINAL)
        )
        if number < after or not may_begin or len(lines[number]) > MAX_QUOTE_LINE:
            continue
        tried += 1
        if tried > MAX_QUOTE_LINES:
            break
        match = _headers().match("\n".join(shown)[:MAX_QUOTE_LINE])
        above = "\n".join(lines[:number]).strip() if match else ""
        if above:
            return above
        if match:
            after = number + max(1, match[0].count("\n"))
    return "\n".join(lines).strip()


def _without_rules(lines: list[str]) -> list[str]:
    """Return lines without those of hyphens or underscores below a blank one."""
    kept: list[str] = []
    for line in lines:
        is_rule = len(line) >= _RULE_LENGTH and _RULE.issuperset(line)
        if not is_rule or (kept and kept[-1]):
            kept.append(line)
    return kept


@functools.cache
def _headers() -> re.Pattern[str]:
    from mailparser_reply import EmailMessage

    return EmailMessage(text="", languages=list(_LANGUAGES)).HEADER_REGEX
