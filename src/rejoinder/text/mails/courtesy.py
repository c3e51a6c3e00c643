"""Lines of a mail that greet, close or name somebody, and say nothing else.

Closings are known in the languages of mail-parser-reply and in Portuguese.
"""

from __future__ import annotations

import functools

from rejoinder.patterns import MatchPattern, match_pattern, search_pattern
from rejoinder.text.courtesy import GREETING, asks, denies, has_content, words
from rejoinder.text.dates import MONTHS, WEEKDAYS
from rejoinder.text.words.english import COMMON, english, first_names

MAX_SALUTATION = 80  # letters of a line that is a salutation
MAX_CLOSING = 80  # of a line that is a closing
MAX_NAMES = 8  # words behind a closing, in its line
MAX_ADDRESSEE = 3  # words of a first line that is a name
MAX_CALLED = 6  # words behind a greeting that are none of a name: "all at the old town library"
MIN_ADDRESS = 2  # words of names; more are an address

FIRST_PERSON = frozenset(["i", "i'm", "i've", "i'd", "i'll", "me", "my", "mine", "myself"])
_MARKS = " ,.!:;|&()\u2013\u2014-"
_GREETING = match_pattern(
    rf"(?i)(?:{GREETING}"
    r"|(?:morning|afternoon|evening)(?=[^\n]{0,60}[,!]$)"
    r"|to whom (?:it|this) may concern|to (?:the|all)(?=[^\n]{0,60},$)"
    r"|fao|attn|hallo|liebe[sr]?|sehr geehrte[rs]?"
    r"|guten (?:tag|morgen|abend)|moin"
    r"|gr\u00fc\u00df gott|servus|bonjour|bonsoir|salut|ch[e\u00e8]re?|madame|hola"
    r"|buen(?:os d\u00edas|as tardes|as noches)|estimad[oa]s?|querid[oa]s?|buon ?giorno"
    r"|buonasera|salve|ciao|gentil[ei]|spett(?:abile|\.le)|egregio|ol\u00e1|bo(?:m dia|a tarde"
    r"|a noite)|prezad[oa]s?|car[oai]|exm[oa]s?)\b"
)
_LETTER_GREETING = match_pattern(  # what is addressed behind it is no request
    r"(?i)(?:dear|fao|attn|liebe|sehr|ch[e\u00e8]r|estimad|querid|gentil|spett|egregi|prezad|exm)"
)
_MORE = (  # behind thanks
    r"(?: (?:again|once (?:again|more)|a (?:lot|million|bunch|ton|heap)|so much|very much"
    r"|ever so much|much|loads|heaps|indeed|in (?:advance|anticipation)))"
)
_FORMULA = match_pattern(
    r"(?i)(?:(?:with |my )?(?:very )?(?:best|kind|kindest|warm|warmest|many)(?: (?:regards|wishes"
    r"|greetings|thanks))?|(?:with )?regards|(?:yours )?(?:sincerely|faithfully|truly)(?: yours)?"
    r"|yours(?: (?:ever|always|[a-z]{3,12}ly))?|cheers"
    r"|thanks(?: and (?:best|(?:best |kind )?regards))?"
    rf"|(?:many thanks|thanks|thank you){_MORE}{{0,2}}|br|bw|vg|mfg|lg"
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
_REASON = match_pattern(  # of thanks or an apology, in a line that ends with a comma
    r"(?i)(?:so |very |with |my |many ){0,2}(?:thanks|thank you|sorry|apologies)(?: again)?"
    r" for(?! \w+ing\b)(?: [^\W\d_]+){1,6},"
)
_APOLOGY = search_pattern(r"(?i)\b(?:sorry|apolog(?:y|ies|ise|ize))\b")
_BETWEEN = search_pattern(r"[/|]| [-\u2013\u2014] ")  # formulas of two languages
_WISHED = (
    r"(?:very|really|and|rest of (?:the|your)|good|great|nice|lovely|pleasant|wonderful|fantastic"
    r"|amazing|best|fine|happy|sunny|warm|safe|healthy|beautiful|blessed|super|relaxing|enjoyable)"
)
_TIMES = (
    r"(?:days?|evening|weeks?|weekend|trip|holidays?|time|one|night|morning|afternoon|year|break"
    r"|summer|winter|spring|autumn|christmas|easter)"
)
_WISH = match_pattern(
    r"(?i)(?:take (?:good )?care(?: of (?:yourself|yourselves))?(?! of\b)|bye(?: bye| for now)?"
    r"|(?:have|enjoy|(?:i )?wish(?:ing)? you(?: all)?) (?:a|an|the|your)"
    rf"(?: {_WISHED}){{0,4}} {_TIMES})\b"
)
_AWAITING = match_pattern(
    r"(?i)(?:(?:i|we)(?: am| are|'m|'re)? )?(?:look(?:ing)? forward to your|await(?:ing)? your"
    r"|hop(?:e|ing) to (?:hear|read)|(?:speak|talk|hear)(?: (?:to|from) you)? soon"
    r"|see you(?: soon| then)?)\b"
)
_ORDER = match_pattern(r"(?i)(?:have|take)\b")
_WISHED_TO = frozenset(["ahead", "again", "all", "and", "everyone", "now", "soon", "there", "too"])
_PLACING = frozenset(["at", "for", "in", "of", "on", "to", "with"])  # before no name of a sender
_WHERE = frozenset(["at", "behind", "from", "in", "of"])  # whoever is greeted works
_ABOUT = frozenset(["about", "for", "on", "regarding", "to", "with", "without"])  # no addressee
_HASTE = frozenset(["please", "pls", "plz", "asap", "urgently", "immediately"])
_PARTING_WORDS = """
regards rgds brgds greetings wishes love hugs kisses sincerely faithfully truly respectfully warmly
cordially cheers cheerio sorry apologies thanks thank thanx thx tks ta tia kr hearing thanking
appreciated xx xxx
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
_NEUTRAL_WORDS = """
captain co department dept director dr family gmbh hq inc junior llc ltd ma'am madam marketing miss
mister mr mrs ms mx prof professor sales senior sir st
"""
# Given names and surnames that are common words, too.
_NAME_WORDS = """
al amber angel april archer art august autumn baker banks barber basil bean beard bell belle ben
bill bird bishop black bo bob bond bonnie booth brook brown buddy burns bush butler can cannon
carpenter chambers chan charity chase cherry chip chuck clay cliff cook cooper crystal daisy dawn
day dean destiny dev do dodge don drew duke earl earnest ed eve faith farmer fay fern fields fish
flowers ford forest forrest foster fox frank frost fry gale garland garrison gates gay ginger glen
golden grace grant graves gray green gross guy hall hardy harmony hawk heath heather hill ho holly
honey hood hope horn hunt hunter iris ivy jack jade jay jewel joy june kay ken king kirk kit kitty
knight lake lamb lance lane lang laurel le lee li lily long louis love major mark marks marsh mary
mason max may melody merry mike miles miller mills misty monk morrow moss nick noble olive opal page
paris park parks pat pearl peg penny pierce pope porter powers price prince ray reed rice rich
rivers rob robin rocky rod rose ruby rush rusty sage sally sandy savage shepherd sharp sherry
shields singh sky small smith snow sonny sparks spears stone strong sue summer sun swan tan van
victor violet wade wall walls ward waters weaver weeks wells west white will winter wise wolf wood
woods young
"""
_GROUP_WORDS = "team teams staff folks people crew department dept co corp gmbh inc llc ltd plc"
_ADDRESSEE_WORDS = """
agency airline bakery bank bookshop cafe centre cinema clinic club college company council dentist
doctor gallery gym hospital hostel hotel landlady landlord librarian librarians library museum
office pharmacy practice reception receptionist restaurant salon school seller shop store studio
surgery teacher theatre university vet zoo
"""
_VERB_WORDS = "is are was were am has had does did isn't aren't doesn't didn't won't"
VERBS = frozenset(_VERB_WORDS.split())
"""Verbs of a clause that tells something."""
_GROUPS = frozenset(_GROUP_WORDS.split())
_ADDRESSEES = frozenset(_ADDRESSEE_WORDS.split())
_ALL_WORDS = "all everybody everyone folks guys madam sir sirs team there"
_ALL = frozenset(_ALL_WORDS.split())  # behind whom nobody else is named
_NO_NAMES = FIRST_PERSON | VERBS | _ABOUT | {"have", "do", "can", "could", "will", "would"}
_PARTING = frozenset(_PARTING_WORDS.split())
_NUMBERED = match_pattern(r"([^\n,(\d]{2,40}?),? ?\(?(?<=[ ,(])[^\n,(?]{0,30}\d[^\n?]{0,20}")
_DATES = frozenset((*WEEKDAYS, *MONTHS))
_NAMES = frozenset(_NAME_WORDS.split())
_ADDRESSED = frozenset(_ADDRESSED_WORDS.split())
_NEUTRAL = frozenset([*_ADDRESSED, *_NEUTRAL_WORDS.split()])
_THANKS = search_pattern(
    r"(?i)thank|\bth?x\b|dank|merci|gracias|grazie|obrigad|\btak\b|d\u011bkuj|\uac10\uc0ac|\u8c22"
)


def is_salutation(line: str) -> bool:
    """Return whether a line greets people, teams or places, and says nothing else.

    A name may have small letters if it is the only word, with a mark behind it. "Dear" is said to
    people alone: words behind it may be common ones, and with a mark behind them have small
    letters.
    """
    addressed = _addressed(line)
    if addressed is None:
        return False
    if not has_content(addressed) or is_name(addressed):
        return True
    is_letter = _LETTER_GREETING.match(line) is not None
    if is_letter and _is_capital(addressed) and not asks(addressed):
        return True
    is_called = len(words(addressed)) == 1 and not is_common(addressed)
    return line.endswith((",", "!")) and (is_called or greets_group(line))


def greets_group(line: str) -> bool:
    """Return whether a line greets a group, or somebody who serves; "dear" is said to no others."""
    addressed = _addressed(line)
    if addressed is None or not _is_called(addressed):
        return False
    return _LETTER_GREETING.match(line) is not None or _is_group(addressed)


def may_greet(line: str) -> bool:
    """Return whether a line is a salutation if a blank line is below it: "Hi puppet theatre,"."""
    addressed = _addressed(line)
    if addressed is None or not _is_called(addressed):
        return False
    last = addressed.split()[-1].lower().strip(_MARKS)
    is_group = line.endswith(",") and last in _GROUPS | _ADDRESSEES
    return is_group or _LETTER_GREETING.match(line) is not None


def _addressed(line: str) -> str | None:
    """Return what stands behind a greeting; None: a line does not greet."""
    greeting = _GREETING.match(line) if len(line) <= MAX_SALUTATION else None
    if greeting is None or "?" in line:
        return None
    return line[greeting.end() :].strip(_MARKS)


def _is_called(addressed: str) -> bool:
    """Return whether words behind a greeting may name somebody, and are no clause.

    Behind "all" or "team" nothing stands but where they are.
    """
    tokens = words(addressed)
    if not 0 < len(tokens) <= MAX_CALLED or asks(addressed) or denies(addressed):
        return False
    is_all = tokens[0] in _ALL
    if is_all and len(tokens) > 1 and tokens[1] not in _WHERE:
        return False
    is_plain = addressed.isascii() and all(
        letter.isalpha() or letter in " '&.-" for letter in addressed
    )
    return is_plain and _NO_NAMES.isdisjoint(tokens)


def _is_group(addressed: str) -> bool:
    """Return whether a group or somebody who serves is greeted, in small letters or not."""
    listed = [word.strip(_MARKS) for word in addressed.split()]
    last = listed[-1].lower()
    others = [word for word in listed[:-1] if not word[:1].isupper() and has_content(word)]
    return last in _GROUPS or (last in _ADDRESSEES and not others)


def is_addressee(line: str) -> bool:
    """Return whether a line is a name with a comma behind it."""
    is_short = line.endswith(",") and len(line.split()) <= MAX_ADDRESSEE
    return is_short and has_content(line) and is_name(line)


def is_name(text: str) -> bool:
    """Return whether a text may be names, titles or an address: its words have capital letters.

    Common words are names only if they are in use as such, of a team or firm, or behind a name.
    """
    return _is_capital(text) and not is_common(text)


def _is_capital(text: str) -> bool:
    """Return whether all words of a text have capital letters, except those around names."""
    listed = [word.strip(_MARKS) for word in text.split()]
    is_loud = text.isupper() and sum(len(word) > 1 for word in listed) > 1
    if is_loud or not FIRST_PERSON.isdisjoint(words(text)):
        return False
    return any(listed) and all(
        not word[:1].islower() or "@" in word or "." in word or word in _ADDRESSED
        for word in listed
    )


def is_common(text: str) -> bool:
    """Return whether a text has common words such as no name has: "Lost Card", "Saturday".

    Behind a name that is no word, half of at least three words may be common: those of its address.
    """
    listed = [word.strip(_MARKS) for word in text.split()]
    tokens = [
        part for word in listed if "@" not in word and "." not in word for part in words(word)
    ]
    if tokens and tokens[-1] in _GROUPS:
        return False
    named = [word for word in tokens if word.isalpha() and len(word) > 1 and word not in _NEUTRAL]
    common = sum(map(_is_word, named))
    is_address = len(named) > MIN_ADDRESS and not _is_word(named[0]) and named[0] not in _NAMES
    return common > (len(named) // 2 if is_address else 0)


def _is_word(word: str) -> bool:
    """Return whether a word is in common use, and not as a name."""
    if word in _NAMES:
        return False
    return word in _DATES or english().get(word, COMMON) < COMMON


def is_closing(line: str) -> bool:
    """Return whether a line closes a mail: a formula or other courtesy, names behind it or not."""
    return any(
        _is_formula(text) or _is_parting(text) or _gives_reason(text)
        for text in _without_names(line)
    )


def is_formula(line: str) -> bool:
    """Return whether a line is a formula that closes mails, and thanks nobody."""
    return any(map(_is_formula, _without_names(line))) and not says_thanks(line)


def says_thanks(line: str) -> bool:
    """Return whether a line thanks somebody."""
    return _THANKS.search(line) is not None


def apologises(line: str) -> bool:
    """Return whether a line says that somebody is sorry."""
    return _APOLOGY.search(line) is not None


@functools.cache
def _names_alone() -> frozenset[str]:
    """Return the frequent first names that are no words."""
    return first_names() - _NAMES


def is_sender(line: str) -> bool:
    """Return whether a line below a closing may be names, a number behind them or not.

    Behind a frequent first name that is no word, a surname may be one: "Julia Field".
    """
    numbered = _NUMBERED.fullmatch(line)
    names = numbered[1] if numbered else line
    if is_name(names):
        return True
    tokens = words(names)
    is_led = not _names_alone().isdisjoint(tokens[:-1])
    return is_led and len(tokens) <= MAX_ADDRESSEE + 1 and _is_capital(names)


def _without_names(line: str) -> list[str]:
    """Return a line, and what stands before a comma with names behind it; [] for no closing."""
    if not line or len(line) > MAX_CLOSING or "?" in line:
        return []
    if "," not in line:
        return [line]
    parts = {line.partition(","), line.rpartition(",")}
    named = [
        before
        for before, _, names in parts
        if before and len(names.split()) <= MAX_NAMES and is_name(names)
    ]
    return [line, *named]


def _is_formula(text: str) -> bool:
    """Return whether a text is a formula, or the same in two languages: "Regards / Saludos"."""
    return all(
        _FORMULA.fullmatch(part) is not None or _formulas().fullmatch(part) is not None
        for part in (part.strip() for part in _BETWEEN.split(text))
    )


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
    tokens = words(courtesy)
    if tokens[:1] == ("you",) or denies(courtesy):
        return False
    if _WISH.match(text):
        return _is_wish(text)
    if _ORDER.match(text):
        return False
    if awaiting := _AWAITING.match(text):
        return not has_content(text[awaiting.end() :])
    others = [word for word in tokens if word not in _PARTING]
    return len(others) < len(tokens) and not has_content(" ".join(others))


def _gives_reason(text: str) -> bool:
    """Return whether a text thanks or apologises for something, of which it says no more."""
    return _REASON.fullmatch(text) is not None and FIRST_PERSON.isdisjoint(words(text))


def _is_wish(text: str) -> bool:
    """Return whether a text only wishes something, behind which names or a closing may stand."""
    wish = _WISH.match(text)
    tokens = words(text)
    if wish is None or not FIRST_PERSON.isdisjoint(tokens) or not _HASTE.isdisjoint(tokens):
        return False
    rest = text[wish.end() :].strip(_MARKS)
    others = words(rest)
    if others[:1] == ("and",):
        rest = rest[len("and") :].strip(_MARKS)
    if _WISHED_TO.issuperset(others) or is_closing(rest):
        return True
    return is_name(rest) and others[0] not in _PLACING
