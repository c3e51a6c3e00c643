"""Messages that a web form sends: fields about the sender, and the field of the message."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from rejoinder.patterns import match_pattern
from rejoinder.text.courtesy import has_content
from rejoinder.text.mails.quotes import mail_lines

LEAST_FIELDS = 2  # before the message
_FIELD = match_pattern(r"[* ]{0,3}([^\W\d_][\w' ./-]{0,30}\??)[* ]{0,3}:(?!//)[* ]{0,3}([^\n]*)")
_SENDER_LABELS = """
name, your name, full name, first name, last name, surname, given name, family name, salutation
email, e-mail, email address, e-mail address, your email, your e-mail, reply-to
phone, telephone, tel, mobile, phone number, telephone number, mobile number, contact number
company, organisation, organization, address, street, city, town, postcode, zip, zip code, country
customer number, customer no, customer id, account number, account no, member number, member id
vorname, nachname, anrede, telefon, firma, kundennummer
"""
_PROGRAM_LABELS = """
date, time, sent, submitted, language, ip, ip address, remote ip, page, page url, url, website
user agent, powered by, browser, consent, datum
"""
_MESSAGE_LABELS = """
message, your message, message body, message text, comment, comments, your comment, your comments
question, your question, enquiry, your enquiry, inquiry, your inquiry, your request
details, description, problem, issue, request, how can we help, how can we help you
nachricht, ihre nachricht
"""
_SUBJECT_LABELS = "subject, topic, betreff, thema"


def _labels(text: str) -> frozenset[str]:
    """Return the labels of a text, between commas and lines."""
    return frozenset(filter(None, map(str.strip, text.replace("\n", ",").split(","))))


_SENDER = _labels(_SENDER_LABELS)
_BELOW = _SENDER | _labels(_PROGRAM_LABELS)  # a message
_MESSAGE = _labels(_MESSAGE_LABELS)
_SUBJECT = _labels(_SUBJECT_LABELS)
_ARRIVAL = match_pattern(
    r"(?i)(?=[^\n]{0,80}\b(?:message|enquiry|inquiry|submission|request|form|entry)\b)"
    r"(?:you(?: have|'ve)?(?: just)? (?:got|received|have)?|(?:a )?new|there is)\b[^?\n]{0,100}"
)
_FOOTER = match_pattern(
    r"(?i)(?:(?:sent|submitted|received) (?:on|at) [^?\n]{0,60}\d[^?\n]{0,80}"
    r"|this (?:e-?mail|message|form) was (?:sent|submitted) (?:from|through|via|by) [^?\n]{0,120}"
    r"|-{2,3} ?)"
)


def without_fields(text: str) -> str:
    """Return what a web form sends without its fields about the sender.

    At least two fields stand before that of the message. The subject and fields of other names are
    read, too. Another text stays.
    """
    lines = mail_lines(text)
    start = next((number for number, line in enumerate(lines) if line), 0)
    start += _ARRIVAL.fullmatch(lines[start]) is not None
    fields = [_FIELD.match(line) for line in lines]
    begin = next((number for number, field in enumerate(fields) if _is_of(field, _MESSAGE)), 0)
    front = list(_front(lines[start:begin], fields[start:begin]))
    known = {label for label, _ in front if label in _SENDER or label in _SUBJECT}
    message = fields[begin]
    if not message or len(known) < LEAST_FIELDS or any(not label for label, _ in front):
        return text
    above = frozenset(label for label, _ in front)
    body = _without_footer([message[2], *lines[begin + 1 :]], above)
    others = [value for label, value in front if label not in _SENDER and has_content(value)]
    return "\n\n".join([*others, body]) if has_content(body) else text


def _is_of(field: re.Match[str] | None, labels: frozenset[str]) -> bool:
    """Return whether a line is a field with one of some labels."""
    return field is not None and _label(field) in labels


def _label(field: re.Match[str]) -> str:
    """Return the label of a field in small letters; "from" with an address is "email"."""
    label = field[1].lower().strip(" ?").removesuffix(".")
    return "email" if label == "from" and "@" in field[2] else label


def _front(
    lines: Sequence[str], fields: Sequence[re.Match[str] | None]
) -> Iterable[tuple[str, str]]:
    """Yield each field above the message with its value; a line of no field has no label."""
    label = ""
    for line, field in zip(lines, fields, strict=True):
        if field is not None:
            name = _label(field)
            label = "" if field[2] else name  # its value may be in the next line
            yield name, field[2] if name in _SUBJECT else line
        elif line:
            yield label, line
            label = ""


def _without_footer(lines: list[str], above: frozenset[str]) -> str:
    """Return the lines of a message without fields and marks of the form below them.

    A form sends no field twice: one with a label that stood `above` belongs to the message.
    """
    below = _BELOW - above
    reversed_lines = itertools.dropwhile(lambda line: _is_below(line, below), reversed(lines))
    return "\n".join(reversed([*reversed_lines])).strip()


def _is_below(line: str, labels: frozenset[str]) -> bool:
    """Return whether a line below a message is blank, of the form or of its sender."""
    is_mark = not line or _FOOTER.fullmatch(line) is not None
    return is_mark or _is_of(_FIELD.match(line), labels)
