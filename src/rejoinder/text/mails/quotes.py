"""Removal of the mails that a mail quotes below its own words.

The lines that begin a quoted mail ("On ... wrote:") are known by the expressions of
mail-parser-reply, in its languages. They take the square of a line's length and more, so they are
tried only where such a line may begin, on as many letters as it may have. Those of Gmail in other
languages are known by a date, a time and an address, or a verb of writing.
"""

from __future__ import annotations

import functools
import itertools
import re

from rejoinder.patterns import match_pattern, search_pattern

DELIMITER = "-- "  # above a signature, by its standard
MAX_QUOTE_LINES = 150  # lines of a mail that may begin a quoted mail
MAX_QUOTE_LINE = 300  # letters of these with the lines that follow
_LANGUAGES = ["en", "de", "fr", "it", "es", "nl", "da", "sv", "pl", "cs", "ja", "ko", "zh"]
_LINES = 4  # of a header of a quoted mail
_FIELD = match_pattern(r"[> ]*+[* ]*+[^\s:>*][^:\n]{0,30}:")  # "From:" in any language
_ORIGINAL = "-----"  # Original Message
_RULE = frozenset("_-")
_RULE_LENGTH = 32
_MAX_MARKER = 60  # letters of a line that says that a mail follows
_MARKER = match_pattern(  # in any language, and of Apple's program
    r"-{3,10} ?(?:[^-\n]|-(?!-)){3,40} ?-{3,10}|(?i:begin forwarded message):"
)
_FORWARDED = match_pattern(  # of programs' marks, those above a mail that is handed on
    r"(?i)(?:-{3,10} ?)?(?:begin forwarded message|forwarded message|weitergeleitete nachricht"
    r"|(?:d\u00e9but du )?message transf\u00e9r\u00e9|forwarded by [^\n]{1,60}?"
    r"|mensaje reenviado|messaggio inoltrato|doorgestuurd bericht|mensagem encaminhada)"
    r"(?: ?-{3,10}|:)?"
)
_FIELDS = 3  # lines of a header without a mark above it
_HEADER = match_pattern(  # fields of mail programs, in their languages
    r"(?i)[* ]{0,3}(?:from|sent|date|to|b?cc|reply-to|importance|subject|von|gesendet|datum|an"
    r"|betreff|de|envoy\u00e9|\u00e0|objet|enviad[oa](?: el| em)?|fecha|para|asunto|assunto|da"
    r"|inviato|data|a|oggetto|van|verzonden|aan|onderwerp)[* ]{0,3}:"
)
_OF_MAIL = match_pattern(  # fields that nothing but mails have
    r"(?i)[* ]{0,3}(?:sent|gesendet|envoy\u00e9|enviad[oa]|inviato|verzonden|b?cc|reply-to"
    r"|importance|subject|betreff|objet|asunto|assunto|oggetto|onderwerp)\b"
)
_MOST_FIELDS = 8
_SENT = search_pattern(r"\S@\S|\d[:.]\d\d\b")
_SUBJECT = match_pattern(
    r"(?i)[* ]{0,3}(?:subject|betreff|objet|asunto|assunto|oggetto|onderwerp)[* ]{0,3}: *+"
    r"(?:(?:re|fwd?|aw|wg) ?: *+)*+(\S[^\n]*)"
)
_INTRODUCTION = match_pattern(
    r"(?i)(?=[^\n]{0,100}(?:\b(?:19|20)\d\d\b|\b\d\d?[./-]\d))"  # a date, in the first line
    r"(?=[^\n]{0,120}\b\d\d?[:.h]\d\d\b)"  # a time
    r"(?=[^\n]{0,200}(?:\n[^\n]{0,100})?(?:<[^\s<>@]{1,80}@[^\s<>]{1,80}>"
    r"|\b(?:schreef|schrieb|escribi\u00f3|escreveu|napisa\u0142|pisze|napsal|skrev|kirjoitti"
    r"|\u043d\u0430\u043f\u0438\u0441\u0430\u043b|\u043f\u0438\u0448\u0435\u0442)\b))"
    r"[^\n]{1,299}(?:\n[^\n]{1,99})?(?<=[:\uff1a])"
)


def mail_lines(text: str) -> list[str]:
    """Return the stripped lines of a mail; the delimiter of a signature keeps its blank."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line if line == DELIMITER else line.strip() for line in lines]


def newest_text(text: str) -> str:
    """Return the text of a mail above the first mail that it quotes."""
    lines = _without_rules(mail_lines(text))
    above = _without_markers(lines[: _quote_begin(lines)])
    return "\n".join(above).strip("\n") or "\n".join(lines).strip("\n")


def text_below(text: str) -> str:
    """Return the text of the first mail that a mail quotes below its own, without a header."""
    lines = _without_rules(mail_lines(text))
    first = _quote_begin(lines)
    quoted = lines[first:]
    begin = next((number for number, line in enumerate(quoted) if not _is_marker(line)), 0)
    while begin < len(quoted) and _is_header(quoted[begin]):
        begin += 1
    below = quoted[begin:] if any(quoted[begin:]) else quoted
    return "\n".join(line.lstrip("> ") for line in below).strip("\n")


def is_forwarded(text: str) -> bool:
    """Return whether the first mail below a text is handed on, as the line above it says."""
    lines = _without_rules(mail_lines(text))
    begin = _quote_begin(lines)
    above = filter(None, lines[max(0, begin - 2) : begin + 1])
    return any(_FORWARDED.fullmatch(line) is not None for line in above)


def without_header(text: str) -> str:
    """Return a mail that begins with the header of another one, nothing above, by its subject.

    A header has a mark above it, or three fields of mail programs with an address or a time.
    """
    lines = mail_lines(text)
    begin = next((number for number, line in enumerate(lines) if not _is_marker(line)), 0)
    fields = [*itertools.takewhile(_HEADER.match, lines[begin:])]
    is_marked = any(lines[:begin]) and len(fields) > 0
    is_sent = len(fields) >= _FIELDS and any(map(_SENT.search, fields))
    body = "\n".join(lines[begin + len(fields) :]).strip("\n")
    if not body or not (is_marked or is_sent):
        return text
    subjects = [match[1] for match in map(_SUBJECT.match, fields) if match]
    return "\n\n".join([*subjects, body])


def _is_header(line: str) -> bool:
    """Return whether a line is a field of a header, or ends an introduction."""
    return _FIELD.match(line) is not None or line.endswith((":", "\uff1a"))


def _quote_begin(lines: list[str]) -> int:
    """Return the line at which the first mail that is quoted below a text begins, or the end."""
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
        is_header = match is not None and _is_of_mail(lines, number)
        is_quote = is_header or introduces_quote(shown) or _marks(shown)
        if is_quote and any(_without_markers(lines[:number])):
            return number
        if match:
            after = number + max(1, match[0].count("\n"))
    return len(lines)


def _is_of_mail(lines: list[str], number: int) -> bool:
    """Return whether what looks like a header is one: "From: Airport / To: Hotel" is a request.

    A header of mail programs has a mark above it, a subject, a time of sending or an address. Other
    introductions have no such fields.
    """
    fields = [*itertools.takewhile(_HEADER.match, lines[number : number + _MOST_FIELDS])]
    above = next(filter(None, reversed(lines[:number])), "")
    return (
        not fields
        or _is_marker(above)
        or any(_OF_MAIL.match(field) is not None or "@" in field for field in fields)
    )


def introduces_quote(lines: list[str]) -> bool:
    """Return whether the first line, or the first two, say who wrote the mail below and when."""
    return any(
        text.endswith((":", "\uff1a")) and _INTRODUCTION.fullmatch(text) is not None
        for text in (lines[0], "\n".join(lines[:2]))
    )


def _marks(lines: list[str]) -> bool:
    """Return whether the first line is a marker, with the header of a mail below it."""
    below = next(filter(None, lines[1:]), "")
    return _MARKER.fullmatch(lines[0]) is not None and _FIELD.match(below) is not None


def _without_markers(lines: list[str]) -> list[str]:
    """Return lines without the last ones that say that a mail follows."""
    end = len(lines)
    while end and _is_marker(lines[end - 1]):
        end -= 1
    return lines[:end]


def _is_marker(line: str) -> bool:
    """Return whether a line is blank, a rule, or "-----Original Message-----"."""
    is_rule = len(line) >= _RULE_LENGTH and _RULE.issuperset(line)
    is_short = len(line) <= _MAX_MARKER
    return not line or is_rule or (is_short and _MARKER.fullmatch(line) is not None)


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
