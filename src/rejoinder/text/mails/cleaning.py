"""Cleaning of mails: a customer's own words, without what a program or habit put around them.

Removed are quoted lines and mails, marks of mail programs and help desks, salutations, closings
with the signatures below them, and disclaimers. What asks or speaks of the customer stays.
"""

from __future__ import annotations

import itertools

from rejoinder.patterns import match_pattern, search_pattern
from rejoinder.text.courtesy import asks, denies, has_content, words
from rejoinder.text.mails.cited import with_cited
from rejoinder.text.mails.courtesy import (
    FIRST_PERSON,
    VERBS,
    apologises,
    is_addressee,
    is_closing,
    is_common,
    is_formula,
    is_name,
    is_salutation,
    is_sender,
    may_greet,
    says_thanks,
)
from rejoinder.text.mails.marks import (
    MAX_MARK,
    is_program_line,
    without_marks,
    without_program_lines,
)
from rejoinder.text.mails.quotes import (
    DELIMITER,
    introduces_quote,
    is_forwarded,
    mail_lines,
    newest_text,
    text_below,
    without_header,
)
from rejoinder.text.mails.senders import without_sender
from rejoinder.text.mails.web_forms import without_fields

MAX_SIGNATURE_LINES = 12  # below a closing
LEAST_SIGNED = 2  # lines below thanks, from which they are a signature, no name alone
MAX_SIGNATURE_WORDS = 12  # of such a line
MAX_POINTER = 15  # words of a text that points to a mail below it
MIN_SENTENCE = 3  # words of a line in small letters

_WROTE = match_pattern(  # "On Mon, 3 May 2026, a shop", of which the next line ends with a colon
    r"(?i)(?:on|am|le|el|il|op|em|den|dnia|dne) [^\n]{0,80}\d[^\n]{0,120}(?<![.!?])"
)
_QUOTE_MARKS = search_pattern(r"(?m)^[ \t]*+>(?:[ \t]*+>)*+ ?")
_DASHES = frozenset({DELIMITER, "--", "\u2014", "__", "___", "----"})
_POSTSCRIPT = match_pattern(
    r"(?i)(?:p\. ?){1,2}s\b|p{1,2}s\b|n\.? ?b\b[.:,;]{0,2} +\S|one (?:more|other|last) thing\b"
    r"|(?:note|update|edit|correction|addition|addendum|also|another thing|and|oh)"
    r"(?: [^\n:]{1,20})?:"
)
_ITEM = match_pattern(r"1[.)] ?[^\W\d_]")
_COMPANY = search_pattern(
    r"(?i)\bregistered (?:office|charity|company)\b[^?\n]{0,200}\d"
    r"|\bregistered in\b[^?\n]{0,100}\b(?:no|nr|number)[.:]? ?\d"
    r"|\b(?:vat|company|charity) (?:reg|no|number|registration)\b[^?\n]{0,20}\d"
    r"|all rights reserved|\u00a9|\bauthori[sz]ed and regulated\b"
)
_OBJECTS = frozenset(["it", "this", "that", "them", "these", "those", "the"])
_SENTENCE_END = search_pattern(r"[.!?\u2026][ \t]")
_FORWARDS = frozenset(["fyi", "fw", "fwd", "forwarded", "forwarding", "below"])
_FORMS = frozenset(["form", "website", "site"])
_ARRIVALS = frozenset(["received", "new", "submitted", "submission", "enquiry", "inquiry"])
_ABOUT_MAILS = frozenset(
    ["see", "sent", "via", "through", "following", "attached", "web", "page", "online"]
)
_HANDING_WORDS = """
look handle deal sort check chase advise advice help assist support reply respond answer forward
forwarded forwarding see below following attached fyi idea ideas thoughts over action anything
her him them this one mail message email request enquiry inquiry query issue customer client guest
tenant patient member student colleague user
"""
_HANDING = frozenset(_HANDING_WORDS.split())
_AUTHOR = frozenset(["i", "i'm", "i've", "i'd", "i'll", "my"])
_DENIED = frozenset(["no", "not", *FIRST_PERSON])
_DISCLAIMER = search_pattern(
    r"(?i)confidentiality (?:notice|note)|legal (?:notice|disclaimer)|\bdisclaimer:"
    r"|(?:this|the) (?:e-?mail|message|communication|information (?:contained )?in this"
    r" (?:e-?mail|message))\b[^.\n]{0,120}\b(?:confidential|privileged|intended (?:only|solely))"
    r"|if you (?:are not the intended|have received this (?:e-?mail|message) in error)"
    r"|consider the environment before printing"
)
_SLOGAN = match_pattern(
    r"(?i)(?:please )?(?:"
    r"(?:consider|think (?:of|about)) the environment\b[^.\n]{0,40}\bprint[^.!?\n]{0,40}"
    r"|think before (?:you print|printing)[^.!?\n]{0,40}"
    r"|save (?:a tree|trees|paper)\b[^.!?\n]{0,80}"
    r"|(?:do not|don't|only) print (?:this (?:e-?mail|mail|message)\b[^.!?\n]{0,60}"
    r"|(?:it )?(?:unless|if) (?:it is )?(?:really )?(?:necessary|needed))"
    r"|(?:follow|like|find) us on (?:facebook|instagram|linkedin|mastodon|pinterest|social media"
    r"|tiktok|twitter|xing|x|youtube)\b[^.!?\n]{0,80}"
    r"|(?:proud )?winners? of (?:the|a|an)\b[^.!?\n]{0,80})[.!]{0,3}"
)
_ADDRESSING_WORDS = "you your it its them this that also too need want would"
_ADDRESSING = frozenset(_ADDRESSING_WORDS.split())


def clean_mail(text: str) -> str:
    """Return what a message says by itself; of one line, only a closing at its end is left out.

    Where nothing is left, the text stays; one that only quotes is read as what it quotes. Where
    what is left only points to the mail below it, as that of a contact form, this mail is read.
    """
    text = without_marks(text)
    if "\n" not in text and "\r" not in text:
        return _without_closing(text)
    text = without_fields(without_header(text))
    own = _own_text(text)
    unmarked = _QUOTE_MARKS.sub("", text)
    if not own and unmarked != text:
        return clean_mail(unmarked)
    if own and (_points_below(own) or (_hands_on(own) and is_forwarded(unmarked))):
        own = _own_text(text_below(unmarked)) or _own_text(unmarked)
    return own or text.strip()


def own_text(mail: str) -> str:
    """Return what a mail says by itself; an empty text for one that only quotes or signs."""
    return _own_text(without_marks(mail))


def _own_text(text: str) -> str:
    lines = _own_lines(with_cited(without_program_lines(mail_lines(text))))
    lines = _without_disclaimers(lines)
    lines = _without_salutation(without_sender(_without_signatures(lines)))
    return _without_closing("\n".join(lines).strip())


def _points_below(text: str) -> bool:
    """Return whether a text says no more than that a mail follows: "FYI", "see below".

    Contact forms say that a message was received or submitted. Names say nothing.
    """
    listed = text.split()
    if len(listed) > MAX_POINTER or says_thanks(text):
        return False
    tokens = words(text)
    is_forward = not _FORWARDS.isdisjoint(tokens)
    is_form = not _FORMS.isdisjoint(tokens) and not _ARRIVALS.isdisjoint(tokens)
    if not is_forward and (not is_form or not _DENIED.isdisjoint(tokens)):
        return False
    small = words(" ".join(word for word in listed[1:] if word[0].islower()))
    pointing = _FORWARDS | _FORMS | _ARRIVALS | _ABOUT_MAILS
    others = [word for word in (*words(listed[0]), *small) if word not in pointing]
    return not has_content(" ".join(others))


def _hands_on(text: str) -> bool:
    """Return whether a text says no more than that somebody should look at another mail."""
    listed = text.split()
    if len(listed) > MAX_POINTER or says_thanks(text) or denies(text):
        return False
    plain = [word for word in listed[1:] if word[0].islower() or is_common(word)]  # no names
    remaining = [word for word in words(" ".join([listed[0], *plain])) if word not in _HANDING]
    return not has_content(" ".join(remaining))


def _own_lines(lines: list[str]) -> list[str]:
    """Return the lines that are not quoted: those above a quoted mail, else those below it."""
    first = next((number for number, line in enumerate(lines) if line.startswith(">")), None)
    if first is None:
        return newest_text("\n".join(lines)).split("\n")
    own = list(filter(None, _unquoted(lines[: first + 1])))
    below = _unquoted(lines[first:])
    if not own or (any(below) and all(map(is_salutation, own))):
        return below
    return _unquoted(newest_text("\n".join(lines)).split("\n"))


def _unquoted(lines: list[str]) -> list[str]:
    """Return lines without those that are quoted, and without those that introduce them."""
    kept: list[str] = []
    is_quoted = False
    for line in lines:
        was_quoted = is_quoted
        is_quoted = line.startswith(">")
        if not is_quoted:
            kept.append(line)
        elif not was_quoted:
            _drop_header(kept)
    return kept


def _drop_header(lines: list[str]) -> None:
    """Remove the last lines if they say whose the quoted lines below are."""
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    if not end or not lines[end - 1].endswith((":", "\uff1a")):
        return
    first = lines[end - 2] if end > 1 else ""
    is_wrapped = _WROTE.fullmatch(first) is not None or introduces_quote([first, lines[end - 1]])
    del lines[end - 2 if is_wrapped else end - 1 :]


def _without_disclaimers(lines: list[str]) -> list[str]:
    """Return lines without the paragraphs that are disclaimers.

    The first one stays, and so does one below nothing but a salutation.
    """
    kept: list[str] = []
    has_text = False
    for is_text, grouped in itertools.groupby(lines, bool):
        paragraph = list(grouped)
        if is_text and has_text and (_is_disclaimer(paragraph) or all(map(_is_slogan, paragraph))):
            continue
        kept.extend(paragraph)
        has_text = has_text or (is_text and not all(map(_is_greeting, paragraph)))
    return kept


def _is_greeting(line: str) -> bool:
    return is_salutation(line) or is_addressee(line)


def _is_disclaimer(paragraph: list[str]) -> bool:
    """Return whether a paragraph is a disclaimer; none asks, and none says "I" or "my"."""
    if _DISCLAIMER.search(paragraph[0]) is None:
        return False
    text = " ".join(paragraph)
    return "?" not in text and _AUTHOR.isdisjoint(words(text))


def _is_slogan(line: str) -> bool:
    """Return whether a line is one that firms set below their mails."""
    return _SLOGAN.fullmatch(line) is not None


def _without_signatures(lines: list[str]) -> list[str]:
    """Return lines without closings and delimiters that have a signature below them."""
    texts = [line for line in lines if line]
    first = 1 if texts and is_salutation(texts[0]) else 0  # line that says something
    stated: list[bool] = []  # looked at where a line closes
    added = [_is_added(line) for line in lines]
    asked = [number for number, line in enumerate(lines) if line.endswith("?") or added[number]]
    last_asked = asked[-1] if asked else -1
    kept: list[str] = []
    above = 0  # lines that are not blank
    number = 0
    while number < len(lines):
        line = lines[number]
        if line == DELIMITER and number > last_asked:
            break
        is_closed = line in _DASHES or is_closing(line)
        if is_closed and not stated:
            stated = _said_lines(lines)
        may_sign = is_closed and _may_sign(line, above, first)
        end = _signature_end(lines, stated, added, number) if is_closed else number
        if not may_sign and (end < len(lines) or line in _DASHES):
            end = number
        if end == number or not may_sign:  # thanks stay that are all of a mail but its names
            kept.append(line)
            above += bool(line)
        number = max(end, number + 1)
    return kept


def _said_lines(lines: list[str]) -> list[bool]:
    """Return which lines say something where they stand below a closing; no disclaimer does.

    Sentences and lists do behind a blank line; slogans stand directly below a name.
    """
    stated: list[bool] = []
    is_legal = False
    before = ""
    for line in lines:
        is_legal = bool(line) and (is_legal or _is_disclaimer([line]))
        is_told = not before and (_is_sentence(line) or _tells(line) or _demands(line))
        is_printed = is_legal or _is_slogan(line)
        stated.append(bool(line) and not is_printed and (is_told or _is_said(line)))
        before = line
    return stated


def _may_sign(line: str, above: int, first: int) -> bool:
    """Return whether a signature may stand below a line that closes a mail.

    Thanks and apologies are no closing where nothing but a salutation stands above them.
    """
    if line in _DASHES:
        return above > 0 or line.startswith("--")
    return above > first or not (says_thanks(line) or apologises(line))


def _signature_end(lines: list[str], stated: list[bool], added: list[bool], start: int) -> int:
    """Return where a mail goes on below a signature; `start` if none is there.

    `stated` and `added` are which lines say something, and which are postscripts. Only a formula is
    enough by itself. Below other lines a signature begins with a name. A mail goes on at a
    postscript, or behind a blank line, with what is said by its author.
    """
    needs_name = not is_formula(lines[start])
    gives_thanks = says_thanks(lines[start])
    signed = 0  # lines
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if not line:
            continue
        if added[number]:
            return number
        if stated[number] or (gives_thanks and _goes_on(line, signed)):
            return number if signed and not lines[number - 1] else start
        is_unsigned = not signed and (_demands(line) or (needs_name and not _signs(line)))
        if signed == MAX_SIGNATURE_LINES or is_unsigned:
            return start
        signed += 1
    return len(lines)


def _goes_on(line: str, signed: int) -> bool:
    """Return whether a sentence goes on with a mail below its thanks.

    Within a signature only one does that speaks to the reader or wants something; others are
    slogans. Directly below a name, only known slogans are.
    """
    is_told = _is_sentence(line) and not (_is_slogan(line) or _is_disclaimer([line]))
    return is_told and (signed < LEAST_SIGNED or not _ADDRESSING.isdisjoint(words(line)))


def _signs(line: str) -> bool:
    """Return whether a line may be the first one of a signature."""
    is_word = len(line.split()) == 1 and not is_common(line)
    return is_word or is_sender(line) or is_closing(line)


def _is_added(line: str) -> bool:
    """Return whether a line is a postscript, and no disclaimer."""
    return _POSTSCRIPT.match(line) is not None and not _is_disclaimer([line])


def _is_said(line: str) -> bool:
    """Return whether a line below a closing says something, unlike names, offices and numbers.

    "Can" may be a name, too.
    """
    listed = line.split()
    is_asked = asks(line) and (line.endswith("?") or not is_name(line))
    if len(listed) > MAX_SIGNATURE_WORDS or is_asked or not FIRST_PERSON.isdisjoint(words(line)):
        return True
    plain = [word for word in listed if word.strip(",.;:!").isalpha()]
    return line[0].islower() and len(plain) >= MIN_SENTENCE and has_content(line)


def _is_sentence(line: str) -> bool:
    """Return whether a line is a sentence, and not what a company has to print."""
    is_long = line.endswith((".", "!")) and len(line.split()) > MIN_SENTENCE
    return is_long and _COMPANY.search(line) is None


def _tells(line: str) -> bool:
    """Return whether a line has a verb, or is the first one of a list with numbers."""
    is_told = len(line.split()) >= MIN_SENTENCE and not VERBS.isdisjoint(words(line))
    return _ITEM.match(line) is not None or (is_told and _COMPANY.search(line) is None)


def _demands(line: str) -> bool:
    """Return whether a line has the form of "Cancel the order", unlike "Head of the office"."""
    tokens = words(line)
    is_object = not _OBJECTS.isdisjoint(tokens[1:]) and "of" not in tokens
    return is_object and is_common(tokens[0])


def _without_salutation(lines: list[str]) -> list[str]:
    """Return lines without a first one that only greets, or names who is meant above a blank."""
    first = next((number for number, line in enumerate(lines) if line), None)
    below = [] if first is None else lines[first + 1 :]
    if first is None or not any(below):
        return lines
    is_meant = not below[0] and (
        is_addressee(lines[first]) or (may_greet(lines[first]) and any(map(_has_body, below)))
    )
    return below if is_meant or is_salutation(lines[first]) else lines


def _has_body(line: str) -> bool:
    """Return whether a line says something of its own, and is no name."""
    return has_content(line) and not is_name(line)


def _without_closing(text: str) -> str:
    """Return a text without a closing and names, or a phone's mark, behind its last sentence."""
    start = max(len(text) - MAX_MARK, text.rfind("\n") + 1)
    for end in _SENTENCE_END.finditer(text, start):
        rest = text[end.end() :].strip()
        if is_program_line(rest) or (is_closing(rest) and has_content(rest)):
            return text[: end.end()].rstrip()
    return text
