"""Lines of a mail that greet, close or name somebody, and say nothing else.

Closings are known in the languages of mail-parser-reply and in Portuguese.
"""

from __future__ import annotations

import functools

from rejoinder.patterns import MatchPattern, match_pattern, search_pattern
from rejoinder.text.courtesy import denies, has_content, words

MAX_SALUTATION = 80  # letters of a line that is a salutation
MAX_CLOSING = 80  # of a line that is a closing
MAX_NAMES = 8  # words behind a closing, in its line
MAX_ADDRESSEE = 3  # words of a first line that is a name

FIRST_PERSON = frozenset(["i", "i'm", "i've", "i'd", "i'll", "me", "my", "mine", "myself"])
_MARKS = " ,.!:;|&()\u2013\u2014-"
_GREETING = match_pattern(
    r"(?i)(?:dear|hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)"
    r"|(?:morning|afternoon|evening)(?=[^\n]{0,60}[,!]$)"
    r"|to whom it may concern|fao|attn|hallo|liebe[sr]?|sehr geehrte[rs]?"
    r"|guten (?:tag|morgen|abend)|moin"
    r"|gr\u00fc\u00df gott|servus|bonjour|bonsoir|salut|ch[e\u00e8]re?|madame|hola"
    r"|buen(?:os d\u00edas|as tardes|as noches)|estimad[oa]s?|querid[oa]s?|buon ?giorno"
    r"|buonasera|salve|ciao|gentil[ei]|spett(?:abile|\.le)|egregio|ol\u00e1|bo(?:m dia|a tarde"
    r"|a noite)|prezad[oa]s?|car[oai]|exm[oa]s?)\b"
)
_FORMULA = match_pattern(
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
_WISH = match_pattern(
    r"(?i)(?:take (?:good )?care|bye|(?:have|enjoy|(?:i )?wish(?:ing)? you)"
    r" (?:a|an|the|your)(?: [a-z]{1,12}){1,4})\b"
)
_PARTING_WORDS = """
regards rgds brgds greetings wishes love hugs kisses sincerely faithfully truly respectfully warmly
cordially cheers thanks thank thanx thx tks ta tia kr hearing
"""
_ADDRESSED_WORDS = """
a again all an and at both care customer customers dear desk everybody everyone folks for friends
from front gentlemen good hello helpdesk hey hi in ladies lovely madam manager of office or our
people reception service services shop sir sirs staff store support team teams the there to valued
x xx xxx you your
al alle au aux cher ch\u00e8re clienta cliente clientes da das de del den der di die do dos du e el
equipe equipo et frau herr herren kollegen kunde la las le les los o os ou se\u00f1or se\u00f1ora
se\u00f1ores senhor senhora senhores signor signora signori todos tous tutti und van von y zusammen
\u00e0 \u00e9quipe
"""
_PARTING = frozenset(_PARTING_WORDS.split())
_ADDRESSED = frozenset(_ADDRESSED_WORDS.split())
_THANKS = search_pattern(
    r"(?i)thank|\bth?x\b|dank|merci|gracias|grazie|obrigad|\btak\b|d\u011bkuj|\uac10\uc0ac|\u8c22"
)


def is_salutation(line: str) -> bool:
    """Return whether a line greets people, teams or places, and says nothing else.

    A name may have small letters if it is the only word, with a mark behind it.
    """
    greeting = _GREETING.match(line) if len(line) <= MAX_SALUTATION else None
    if greeting is None or "?" in line:
        return False
    addressed = line[greeting.end() :].strip(_MARKS)
    is_called = line.endswith((",", "!")) and len(words(addressed)) == 1
    return is_called or not has_content(addressed) or is_name(addressed)


def is_addressee(line: str) -> bool:
    """Return whether a line is a name with a comma behind it."""
    is_short = line.endswith(",") and len(line.split()) <= MAX_ADDRESSEE
    return is_short and has_content(line) and is_name(line)


def is_name(text: str) -> bool:
    """Return whether a text may be names, titles or an address: its words have capital letters."""
    listed = [word.strip(_MARKS) for word in text.split()]
    is_loud = text.isupper() and sum(len(word) > 1 for word in listed) > 1
    if is_loud or not FIRST_PERSON.isdisjoint(words(text)):
        return False
    return any(listed) and all(
        not word[:1].islower() or "@" in word or "." in word or word in _ADDRESSED
        for word in listed
    )


def is_closing(line: str) -> bool:
    """Return whether a line closes a mail: a formula or other courtesy, names behind it or not."""
    return any(_is_formula(text) or _is_parting(text) for text in _without_names(line))


def is_formula(line: str) -> bool:
    """Return whether a line is a formula that closes mails, and thanks nobody."""
    return any(map(_is_formula, _without_names(line))) and not says_thanks(line)


def says_thanks(line: str) -> bool:
    """Return whether a line thanks somebody."""
    return _THANKS.search(line) is not None


def _without_names(line: str) -> list[str]:
    """Return a line, and what stands before a comma with names behind it; [] for no closing."""
    if not line or len(line) > MAX_CLOSING or "?" in line:
        return []
    parts = {line.partition(","), line.rpartition(",")}
    named = [
        before
        for before, _, names in parts
        if before and len(names.split()) <= MAX_NAMES and is_name(names)
    ]
    return [line, *named]


def _is_formula(text: str) -> bool:
    return _FORMULA.fullmatch(text) is not None or _formulas().fullmatch(text) is not None


@functools.cache
def _formulas() -> MatchPattern[str]:
    """Return an expression of the closings and phones' marks of mail-parser-reply.

    A command such as /start is not taken for a name. English marks may begin a sentence: "Sent from
    my old address".
    """
    from mailparser_reply.constants import MAIL_LANGUAGES

    known = {key: language for key, language in MAIL_LANGUAGES.items() if "signatures" in language}
    closings = [closing for language in known.values() for closing in language["signatures"]]
    usual = [rf"(?:{closing})[,.!]?" for closing in closings if not closing.startswith("/")]
    marks = [language["sent_from"] for key, language in known.items() if key != "en"]
    phones = [rf"(?:{mark})\b[^.!?]{{0,40}}" for mark in marks if mark]
    return match_pattern(f"(?i){'|'.join((*usual, *phones))}")


def _is_parting(text: str) -> bool:
    """Return whether a text has words of parting, and no others but courtesy and a sender."""
    courtesy, _, sender = text.partition(" from ")
    if sender and _is_formula(courtesy):
        return True
    said = words(courtesy)
    if said[:1] == ("you",) or denies(courtesy):
        return False
    if _WISH.match(text):
        return not has_content(" ".join(said).removeprefix("take "))
    others = [word for word in said if word not in _PARTING]
    return len(others) < len(said) and not has_content(" ".join(others))
