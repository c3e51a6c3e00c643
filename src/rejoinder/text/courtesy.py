"""Words that ask nothing: greetings, thanks, wishes, and the function words around them."""

from __future__ import annotations

import functools
import operator

from rejoinder.patterns import match_pattern, search_pattern

SHORT = 400  # letters of a text whose words are kept
_WORD = search_pattern(r"[^\W_]+(?:['\u2019][^\W_]+)?+")
_FUNCTION = """
a about again all also always am an and another any are as at be because been being both but by can
could did do does doing each else even ever every few for from get go had has have having he her
here him his i if in into is it its just kindly let like lot lots made make many may me might more
most much must my myself no nor not now of off oh ok okay on once one only or other our ours out
over own per quite rather really she should since so some still such than that the their them
then there these they this those through to too under until up us very was we were what when where
which while who will with without would yes yet you your yours yourself i'm i'd i'll i've
you're you've it's that's don't doesn't didn't isn't aren't
"""
_COURTEOUS = """
hello hi hiya hey howdy dear greetings good morning afternoon evening day night sir madam mister mr
mrs ms team support everyone folks guys there somebody anybody anyone someone nobody
please thank thanks thankyou thx ty cheers appreciate appreciated appreciation grateful gratitude
kind kindly kindness patience patient time effort efforts attention help helpful helping assistance
assist advance advice support supporting understanding consideration cooperation trouble
troubling bothering bother disturb disturbing sorry apologies apologise apologize excuse pardon
hope hoping wish wishing wishes well fine great nice lovely pleasant wonderful happy glad pleased
pleasure enjoy enjoying enjoyed safe healthy health week weekend day days today tomorrow year season
holiday holidays summer winter spring autumn christmas weather sunny
regards respectfully sincerely faithfully truly best warm warmest kindest yours family families
friends colleagues everybody beforehand hear hearing forward look looking soon reply replies
answer answers response respond await awaiting waiting wait question questions quick short
message mail email letter writing write wrote read reading finds find found reach contact
contacting busy know sure hmm um uh well right yep yeah nope bye goodbye care keep work job
people person human agent online listening working alive ping wonderful fantastic amazing hopefully
urgent urgently asap pls plz thanx thnx tysm u ur r worry worries
tia ta kr rgds x xx xxx mate pal buddy tell ask asking wanted wondering q
"""
# Of other languages: none is an English word that asks something.
_OF_OTHERS = """
hola buenos buenas días tardes noches gracias muchas antemano saludo saludos cordial señor
señora estimado estimada estimados ayudan ayudarme favor
hallo guten morgen abend danke vielen dank voraus grüße grüßen freundlichen liebe
damen herren geehrte bitte tschüss
bonjour bonsoir salut merci beaucoup d'avance madame monsieur cordialement plait plaît s'il
ciao buongiorno buonasera salve grazie mille anticipo gentili saluti cordiali distinti
olá bom boa dia tarde noite obrigado obrigada muito cumprimentos atenciosamente
"""
_FIRST_WORDS = "how why what when where which who whose can could do does did is are"
_PARTING_WORDS = """
thank thanks thankyou thx ty cheers appreciate appreciated grateful bye goodbye sorry no nope yes
yeah yep ok okay great perfect fine wonderful amazing fantastic lovely
"""
_COURTESY = frozenset([*_FUNCTION.split(), *_COURTEOUS.split(), *_OF_OTHERS.split()])
_TIME_WORDS = """
days today tomorrow week weekend year season holiday holidays summer winter spring autumn christmas
"""
_TIMES = frozenset(_TIME_WORDS.split())
_POLITE = frozenset([*_COURTEOUS.split(), *_OF_OTHERS.split(), "ok", "okay", "so"])
_ASKING = frozenset(_FIRST_WORDS.split())
_PARTING = frozenset(_PARTING_WORDS.split())
_WAITING = frozenset(["waiting", "there", "anyone", "anybody", "somebody", "someone", "what", "so"])
_GREETINGS = frozenset(["hello", "hi", "hey", "hiya", "howdy"])
GREETING = (
    rf"(?:{'|'.join(sorted(_GREETINGS))}|dear|greetings|good (?:morning|afternoon|evening|day))"
)
"""A pattern of English greetings, in small letters."""
_AROUND_CALL_WORDS = "please pls plz still and so now asap again there yet me very it's"
_CALL_TEXTS = """
help, i need help, can you help, could you help, can u help, can someone help, can somebody help,
answer, reply, respond, can you answer, can you reply, can you respond, can someone answer,
any news, any answer, any reply, any response, any update, any updates, any updates on this,
no news, no answer, no reply, no response, urgent, hurry, bump,
any idea, any ideas, let know
"""
_AROUND_CALLS = frozenset(_AROUND_CALL_WORDS.split())
_CALLS = frozenset(text.strip() for text in _CALL_TEXTS.split(","))
_OFFER = search_pattern(r"\b(?:help|assist|do for) you\b")
_PLEASE = frozenset(["please", "pls", "plz", "bitte", "favor"])
_THANKING_WORDS = """
thank thanks thankyou thx thanx thnx ty tysm cheers appreciate appreciated appreciation grateful
regards wishes danke merci gracias grazie obrigado obrigada tia ta kr rgds xx xxx
"""
_THANKING = frozenset(_THANKING_WORDS.split())
_DENYING = frozenset(["no", "not", "never", "nor", "nope", "without"])
_STOCK = match_pattern(
    r"(?:please |kindly |just |so |and )?+(?:(?:do not|don't|feel|forgive|bear with"
    r"|accept my) ?(?:you(?: all)?|hesitate|free|doing|me|my)"
    r"|excuse|pardon|note|(?:send|give|pass on) (?:my|our)(?: \w+)? (?:regards|greetings|wishes))\b"
)
_WELLBEING = match_pattern(
    r"how are you\b(?! (?!(?:doing|feeling|keeping|holding|coping|getting)\b)\w+ing\b)"
)
_INDIRECT = search_pattern(
    r"\b(?:know|wonder(?:ing)?|curious|ask(?:ing)?|tell (?:me|us)|find out|check|explain"
    r"|understand) (?:how|if|whether|when|where|what|which|who|why)\b"
)
DRAWN_OUT = search_pattern(r"(.)\1(?<=[^\W\d_])\1++")
"""A letter three times or more; it is looked at where two are alike."""
_once = operator.itemgetter(1)


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text in small letters, contractions whole; "heyyy" is "hey"."""
    return _words_of_short(text) if len(text) <= SHORT else _words(text)


def _words(text: str) -> tuple[str, ...]:
    plain = text.lower().replace("\u2019", "'")
    return tuple(_WORD.findall(DRAWN_OUT.sub(_once, plain)))


_words_of_short = functools.lru_cache(maxsize=4096)(_words)


def has_content(text: str) -> bool:
    """Return whether a text has a word that is neither courtesy nor a function word."""
    return not _COURTESY.issuperset(words(text))


def says_when(text: str) -> bool:
    """Return whether a text without content names a time that may matter: "for a week now"."""
    return not _TIMES.isdisjoint(words(text))


def asks_again(text: str) -> bool:
    """Return whether a message only asks for an answer to an earlier one: "hello?", "what now?".

    A word of thanks, agreement or parting is itself what is answered.
    """
    tokens = words(text)
    is_parting = any(word in _PARTING for word in tokens)
    is_question = text.rstrip().endswith(("?", "\uff1f")) or not _WAITING.isdisjoint(tokens)
    return is_question and not is_parting and not has_content(text)


def calls(text: str) -> bool:
    """Return whether a message calls for whoever is to answer: "HELLO", "any news?", "please help".

    As an answer to a question it would make no sense.
    """
    tokens = [word for word in words(text) if word not in _AROUND_CALLS]
    rest = [word for word in tokens if word not in _GREETINGS]
    return " ".join(rest) in _CALLS if rest else bool(tokens)


def offers(text: str) -> bool:
    """Return whether a message offers help, so that the other side wrote it."""
    return _OFFER.search(" ".join(words(text))) is not None


def denies(text: str) -> bool:
    """Return whether a text has a word of denial."""
    return any(word in _DENYING or word.endswith("n't") for word in words(text))


def is_courteous(text: str) -> bool:
    """Return whether a text is courtesy alone, not merely without content: a greeting, thanks."""
    tokens = words(text)
    return (
        _COURTESY.issuperset(tokens)
        and not _POLITE.isdisjoint(tokens)
        and not denies(text)
        and _PLEASE.isdisjoint(tokens)
    )


def is_thanks(text: str) -> bool:
    """Return whether a text is courtesy with which a message ends: thanks, regards."""
    return is_courteous(text) and gives_thanks(text)


def gives_thanks(text: str) -> bool:
    """Return whether a text has a word of thanks or regards."""
    return not _THANKING.isdisjoint(words(text))


def asks(text: str) -> bool:
    """Return whether a sentence asks or demands something, maybe indirectly: "to know whether"."""
    tokens = words(text)
    plain = " ".join(tokens)
    if _WELLBEING.match(plain):
        return False
    if text.endswith(("?", "\uff1f")):
        return True
    is_asked = tokens[:1] != () and tokens[0] in _ASKING
    is_wanted = is_asked or not _PLEASE.isdisjoint(tokens) or _INDIRECT.search(plain) is not None
    return is_wanted and _STOCK.match(plain) is None
