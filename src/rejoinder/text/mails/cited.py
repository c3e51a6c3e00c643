"""Lines behind ">" that a sender shows, such as an error or a list, and does not quote.

"I get this error:" introduces them. "Anna wrote:" introduces what somebody else has written.
"""

from __future__ import annotations

from rejoinder.patterns import match_pattern
from rejoinder.text.courtesy import words
from rejoinder.text.mails.quotes import introduces_quote

_COLONS = (":", "\uff1a")
_ITEM = match_pattern(r"\d{1,2}[.)] ")
_OWN_WORDS = "i i'm i've my we we've our it this these following error screen page"
_QUOTING_WORDS = """
you your he she they wrote write writes written said say asked asking replied answered sent emailed
mail email e-mail message messages letter
"""
_OWN = frozenset(_OWN_WORDS.split())
_QUOTING = frozenset(_QUOTING_WORDS.split())


def with_cited(lines: list[str]) -> list[str]:
    """Return the lines of a mail, with those that its sender cites without their marks."""
    kept: list[str] = []
    above = ""  # the last line that is not blank
    is_cited = False
    for line in lines:
        if line.startswith(">"):
            is_cited = is_cited or (not above.startswith(">") and _cites(above))
            kept.append(line.lstrip("> ") if is_cited else line)
        else:
            is_cited = False
            kept.append(line)
        above = line or above
    return kept


def _cites(line: str) -> bool:
    """Return whether a line introduces what its sender shows, and not a mail."""
    if not line.endswith(_COLONS) or introduces_quote([line]):
        return False
    said = set(words(line))
    is_own = _ITEM.match(line) is not None or not said.isdisjoint(_OWN)
    return is_own and said.isdisjoint(_QUOTING)
