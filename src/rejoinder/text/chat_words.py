"""Short forms of chats, as words that models know: "u" is "you", "tmrw" is "tomorrow"."""

from __future__ import annotations

import re

from rejoinder.patterns import search_pattern
from rejoinder.text.courtesy import words

_READ_AS = """
u you, ur your, pls please, plz please, thx thanks, thnx thanks, thanx thanks,
appt appointment, appts appointments, tmrw tomorrow, tmr tomorrow, cuz because, coz because,
msg message, msgs messages, wk week, wks weeks, pwd password, ppl people,
abt about, acct account, addr address, wanna want to, gonna going to, gotta have to, w/ with,
w/o without, hv have, gd good, rly really, soz sorry, cld could, shld should, wld would, nxt next,
luv love, tho though, gr8 great, l8r later, 2moro tomorrow, 2day today, 2nite tonight,
wot what, hav have, sum1 someone, ne1 anyone, heya hey, wats what's, lil little, sry sorry,
recvd received, resched reschedule, smth something, some1 someone, dunno don't know, lemme let me,
gimme give me, gona going to, fone phone, thru through, cud could, shud should, wud would,
cudnt couldn't, shudnt shouldn't, wudnt wouldn't"""
_WORDS = dict(entry.split(maxsplit=1) for entry in _READ_AS.strip().split(","))
_OTHER_IN_CAPITALS = frozenset(["MSG", "HV", "RN"])  # glutamate, high voltage, a nurse
_IN_PLACES = {"r": "are", "4": "for", "wat": "what", "hw": "how", "nr": "number", "rn": "right now"}
_FORMS = frozenset(form.partition("/")[0] for form in (*_WORDS, *_IN_PLACES))
ALSO_ENGLISH = frozenset(["wat"])
"""Words of other languages that are read as English ones before a word of English."""
_BEHIND_WHAT = (
    "time|kind|type|if|about|the|your|ur|you|u|my|i|we|are|r|do|does|did|can|should"
    "|happens|happened|else"
)
_SHORT = search_pattern(
    r"(?<![\w@/.'\u2019-])(?ai:"
    + "|".join(map(re.escape, sorted(_WORDS, key=len, reverse=True)))
    + r"|r(?= (?:you|u|the|there|they|we|these|those|your|ur)\b)"
    r"|4(?= (?:me|you|u|us|my|him|her|them|it)\b)"
    rf"|wat(?= (?:is )?(?:{_BEHIND_WHAT})\b)"
    r"|hw(?= (?:much|many|long|do|does|can|to)\b)"
    r"|(?<!\ban )(?<!\bthe )rn"
    r"|nr(?= \d| (?:is|of)\b|[?!,]|\Z))(?![\w@/'\u2019-]|\.\w)"
    r"|(?<![\w@/.'\u2019-])(?ai:u)(?=['\u2019](?:re|ll|ve|d)\b)"
)


def read_chat_words(text: str) -> str:
    """Return a text with the words for which its short forms stand.

    >>> read_chat_words("r u open tmrw? u're late")
    "are you open tomorrow? you're late"
    """
    read = (word.partition("'")[0] for word in words(text))
    return text if _FORMS.isdisjoint(read) else _SHORT.sub(_word, text)


def _word(match: re.Match[str]) -> str:
    following = match.string[match.end() : match.end() + 2]
    is_name = match[0] == "Lil" and following[1:].isupper()
    if is_name or (match[0] in _OTHER_IN_CAPITALS and not match.string.isupper()):
        return match[0]
    short = match[0].lower()
    return _WORDS.get(short) or _IN_PLACES[short]
