"""What a customer wrote in a mail, without what a mail program or habit put around it.

Removed are quoted lines and mails, marks of mail programs and help desks, salutations, closings
with the signatures below them, and disclaimers. Closings are known in the languages of
mail-parser-reply and in Portuguese.
"""

from __future__ import annotations

import functools

from rejoinder.mail_quotes import introduces_quote, newest_text
from rejoinder.patterns import MatchPattern, match_pattern, search_pattern

MAX_SIGNATURE_LINES = 12  # below a closing
MAX_SALUTATION = 60  # letters of a line that is a salutation
MAX_CLOSING = 40  # of a line that is a closing
MAX_CLOSING_NAMES = 3  # behind a closing, in its line
MIN_SENTENCE = 4  # words

_INVISIBLE = search_pattern("[\u200b\u2060\ufeff\u00ad]")
_MARKS = search_pattern(
    r"\[(?:cid|image|img|ref|logo):[^\]\n]{0,200}\]|\bref:_[^\s:]{1,80}:ref\b"
    r"|<(?:https?://|mailto:)[^>\n]{1,2000}>",
    # names of pictures, marks by which a help desk finds a mail again, targets of links
)
_PROGRAM_LINE = match_pattern(
    r"(?i)(?:sent (?:from|via|with) (?:my|the|a|outlook|yahoo|gmail|mail|proton|samsung|windows"
    r"|iphone|ipad|android|blackberry)\b.{0,60}|get outlook for \w{2,10}.{0,100}"
    r"|(?:von|gesendet von) meinem .{0,40} gesendet.{0,20}"
    r"|#{2,3}-.{0,120}-#{2,3}|-{0,5} ?(?:please )?(?:type|write|reply) your (?:reply|response)"
    r" above this line.{0,20}|(?:please )?reply above this line.{0,20}"
    r"|\[?external(?: e-?mail| sender)?\]?:?.{0,120}|virus-free\. .{0,60}"
    r"|this e?-?mail has been (?:scanned|checked) .{0,120})"
)
_SALUTATION = match_pattern(
    r"(?i)(?:dear|hi|hello|hey|hiya|greetings|good (?:morning|afternoon|evening|day)"
    r"|to whom it may concern|hallo|liebe[sr]?|sehr geehrte[rs]?|guten (?:tag|morgen|abend)|moin"
    r"|gr\u00fc\u00df gott|servus|bonjour|bonsoir|salut|ch[e\u00e8]re?|madame|hola"
    r"|buen(?:os d\u00edas|as tardes|as noches)|estimad[oa]s?|querid[oa]s?|buon ?giorno"
    r"|buonasera|salve|ciao|gentil[ei]|spett(?:abile|\.le)|egregio|ol\u00e1|bo(?:m dia|a tarde"
    r"|a noite)|prezad[oa]s?|car[oai]|exm[oa]s?)\b"
    r"[^?:;\n]{0,50}[,!.]?"
)
_CLOSING = match_pattern(
    r"(?i)(?:(?:with |my )?(?:very )?(?:best|kind|kindest|warm|warmest|many)(?: (?:regards|wishes"
    r"|greetings|thanks))?|(?:with )?regards|(?:yours )?(?:sincerely|faithfully|truly)(?: yours)?"
    r"|yours|cheers|thanks(?: (?:again|a lot|so much|very much|in advance|and (?:best|kind)?"
    r" ?regards))?|thank you(?: (?:again|so much|very much|in advance))?|br|vg|mfg|lg"
    r"|mit (?:freundlichen|besten) gr\u00fc(?:\u00df|ss)en|mit freundlichem gru\u00df"
    r"|(?:viele|liebe|beste|sch\u00f6ne|freundliche) gr\u00fc(?:\u00df|ss)e"
    r"|(?:vielen |besten |herzlichen )?dank(?:e)?(?: (?:im voraus|und gru\u00df))?"
    r"|(?:bien )?cordialement|bien \u00e0 (?:vous|toi)|sinc\u00e8res salutations"
    r"|merci(?: (?:beaucoup|d'avance|bien|par avance))?"
    r"|(?:un |muchos |cordiales )?saludos?(?: cordial(?:es)?)?|atentamente"
    r"|(?:muchas )?gracias(?: de antemano)?|(?:cordiali |distinti |un )?saluti|cordialmente"
    r"|grazie(?: (?:mille|in anticipo|tante))?|(?:com os melhores )?cumprimentos|atenciosamente"
    r"|(?:muito )?obrigad[oa]s?|abra\u00e7os)[,.!]?"
)
_THANKS = search_pattern(
    r"(?i)thank|dank|merci|gracias|grazie|obrigad|\btak\b|d\u011bkuj|\uac10\uc0ac|\u8c22"
)
_WROTE = match_pattern(  # "On Mon, 3 May 2026, a shop", of which the next line ends with a colon
    r"(?i)(?:on|am|le|el|il|op|em|den|dnia|dne) [^\n]{0,80}\d[^\n]{0,120}(?<![.!?])"
)
_SIGNATURE = frozenset({"--", "\u2014", "__", "___", "----"})
_DISCLAIMER = search_pattern(
    r"(?i)confidentiality (?:notice|note)|legal (?:notice|disclaimer)|\bdisclaimer:"
    r"|(?:this|the) (?:e-?mail|message|communication|information (?:contained )?in this"
    r" (?:e-?mail|message))\b[^.\n]{0,120}\b(?:confidential|privileged|intended (?:only|solely))"
    r"|if you (?:are not the intended|have received this (?:e-?mail|message) in error)"
    r"|consider the environment before printing"
)


def clean_mail(text: str) -> str:
    """Return what a message says by itself; a line that is nothing but a message is untouched.

    Where nothing is left, the text stays.
    """
    text = _without_marks(text)
    if "\n" not in text and "\r" not in text:
        return text
    return _own_text(text) or text.strip()


def own_text(mail: str) -> str:
    """Return what a mail says by itself; an empty text for one that only quotes or signs."""
    return _own_text(_without_marks(mail))


def _without_marks(text: str) -> str:
    """Return a text without invisible characters and what programs put between words."""
    if _INVISIBLE.search(text):
        text = _INVISIBLE.sub("", text)
    if "[" in text or "<" in text or "ref:_" in text:
        text = _MARKS.sub(" ", text).strip() or text
    return text


def _own_text(text: str) -> str:
    lines = [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    lines = [line for line in lines if not _PROGRAM_LINE.fullmatch(line)]
    lines = _own_lines(lines)
    lines = _without_disclaimers(lines)
    lines = _without_salutation(_above_signature(lines))
    return "\n".join(lines).strip()


def _own_lines(lines: list[str]) -> list[str]:
    """Return the lines that are not quoted: those above a quoted mail, else those below it."""
    first = next((number for number, line in enumerate(lines) if line.startswith(">")), None)
    if first is None:
        return newest_text("\n".join(lines)).split("\n")
    own = list(filter(None, _unquoted(lines[: first + 1])))
    below = _unquoted(lines[first:])
    if not own or (any(below) and all(map(_is_salutation, own))):
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
    """Return lines without the paragraphs that are disclaimers, unless the first one is."""
    kept: list[str] = []
    is_first = True
    is_left_out = False
    for line in lines:
        if not line:
            is_left_out = False
        elif not is_left_out and not is_first:
            is_left_out = (not kept or not kept[-1]) and _DISCLAIMER.search(line) is not None
        is_first = is_first and not line
        if not is_left_out:
            kept.append(line)
            is_first = False
    return kept


def _above_signature(lines: list[str]) -> list[str]:
    """Return the lines above a mark of a signature, or above a closing near the end.

    Thanks are no closing where nothing but a salutation stands above them.
    """
    texts = [line for line in lines if line]
    first = 1 if texts and _is_salutation(texts[0]) else 0  # line that says something
    above = 0  # of the texts
    for number, line in enumerate(lines):
        if line in _SIGNATURE and (above or line == "--"):
            return lines[:number]
        if _is_closing(line):
            is_thanks = _THANKS.search(line) is not None
            below = texts[above + 1 : above + MAX_SIGNATURE_LINES + 2]
            is_doubtful = is_thanks or above <= first
            is_possible = above > first or not is_thanks
            if is_possible and _is_signature(below, with_sentences=not is_doubtful):
                return lines[:number]
        above += bool(line)
    return lines


def _is_closing(line: str) -> bool:
    """Return whether a line is a closing, behind which names may stand."""
    if not line or len(line) > MAX_CLOSING:
        return False
    closing, comma, names = line.partition(",")
    words = names.split()
    is_named = len(words) <= MAX_CLOSING_NAMES and all(word[0].isupper() for word in words)
    return any(
        _CLOSING.fullmatch(text) is not None or _closings().fullmatch(text) is not None
        for text in (line, *([closing + comma] if is_named else []))
    )


@functools.cache
def _closings() -> MatchPattern[str]:
    """Return an expression of the closings and phones' marks of mail-parser-reply.

    A command such as /start is not taken for a name.
    """
    from mailparser_reply.constants import MAIL_LANGUAGES

    known = [language for language in MAIL_LANGUAGES.values() if "signatures" in language]
    closings = [closing for language in known for closing in language["signatures"]]
    usual = [rf"(?:{closing})[,.!]?" for closing in closings if not closing.startswith("/")]
    marks = [language["sent_from"] for language in known if language["sent_from"]]
    phones = [rf"(?:{mark})\b[^.!?]{{0,40}}" for mark in marks]
    return match_pattern(f"(?i){'|'.join((*usual, *phones))}")


def _is_signature(lines: list[str], *, with_sentences: bool) -> bool:
    """Return whether lines may stand below a closing: names, offices, numbers, no question."""
    return len(lines) <= MAX_SIGNATURE_LINES and not any(
        line.endswith("?")
        or len(line.split()) > MAX_SIGNATURE_LINES
        or (not with_sentences and _is_sentence(line))
        for line in lines
    )


def _is_sentence(line: str) -> bool:
    """Return whether a line may be what a mail goes on with: thanks do not always close one."""
    is_text = line.endswith((".", "!")) or line[0].islower()
    return is_text and len(line.split()) >= MIN_SENTENCE


def _without_salutation(lines: list[str]) -> list[str]:
    """Return lines without a first one that only greets."""
    first = next((number for number, line in enumerate(lines) if line), None)
    if first is None or not any(lines[first + 1 :]):
        return lines
    return lines[first + 1 :] if _is_salutation(lines[first]) else lines


def _is_salutation(line: str) -> bool:
    """Return whether a line only greets."""
    is_greeting = len(line) <= MAX_SALUTATION and _SALUTATION.fullmatch(line) is not None
    return is_greeting and len(line.split()) <= 5
