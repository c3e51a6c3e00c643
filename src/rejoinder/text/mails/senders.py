"""Names with which a mail ends that has no closing: "Anne and Paul Weber", "xoxo Lizzy"."""

from __future__ import annotations

from rejoinder.patterns import match_pattern
from rejoinder.text.courtesy import asks, has_content, words
from rejoinder.text.mails.courtesy import is_addressee, is_name, is_salutation
from rejoinder.text.words.english import first_names

MAX_SENDER = 4  # words of names at the end of a mail
_ENDS = (".", "!", "?", "\u2026", ")", "\uff1f")  # of a sentence
_LINKS = frozenset(["and", "&", "+"])
_KISS = match_pattern(r"(?i)x{1,5}|(?:xo){1,3}x?")
_OPEN = frozenset(["and", "as", "at", "by", "for", "from", "in", "is", "of", "on", "to", "with"])
_MARKS = ".,!-\u2013\u2014"
_NAMING_WORDS = """
name names named rename surname surnames call called calls spell spelled spelt spelling passenger
passengers guest guests attendee attendees traveller travellers traveler travelers participant
participants player players add register registered invite colleague colleagues user users driver
drivers member members kid kids child children write writing print printed read engrave engraved
engraving label recipient recipients who whose
"""
_NAMING = frozenset(_NAMING_WORDS.split())  # above a name that is asked for


def without_sender(lines: list[str]) -> list[str]:
    """Return the lines of a mail without a last one that only says who wrote it.

    What stands above says something, asks for no name and ends with its sentence.
    """
    end = next((number for number in range(len(lines), 0, -1) if lines[number - 1]), 0)
    above = lines[: end - 1] if end else []
    told = [line for line in above if line and not (is_salutation(line) or is_addressee(line))]
    if not told or not has_content(told[-1]):
        return lines
    is_apart = not above[-1]
    if not (told[-1].endswith(_ENDS) or (is_apart and _is_question(told[-1]))):
        return lines
    is_asked = any(not _NAMING.isdisjoint(words(line)) for line in told)
    return lines if is_asked or not _is_sender(lines[end - 1], is_apart) else above


def _is_question(line: str) -> bool:
    """Return whether a line without a mark asks, and does not go on with a name."""
    return asks(line) and line[-1].isalnum() and words(line)[-1] not in _OPEN


def _is_sender(line: str, is_apart: bool) -> bool:
    """Return whether a line is names of people, with kisses or without.

    One of them is a frequent first name. Behind kisses, any name is one, and so is a family.
    """
    listed = [word for word in (written.strip(_MARKS) for written in line.split()) if word]
    named = [word for word in listed if not _KISS.fullmatch(word)]
    names = [word for word in named if word.lower() not in _LINKS]
    is_kissed = len(named) < len(listed)
    if not names or len(listed) > MAX_SENDER or not is_name(" ".join(names)):
        return False
    if not all(word.isalpha() and word[0].isupper() for word in names if word != "the"):
        return False
    is_family = names[0].lower() == "the" and len(names) == 2 and names[1].endswith("s")
    return is_kissed or (is_family and is_apart) or names[0].lower() in first_names()
