"""Whether two texts say the opposite of the same thing: "cancel my order", "do not cancel it".

Encoders put both side by side. Here each content word gets a `Sign` and a pole. Texts oppose each
other in a word that they share: where one wishes that it is not done, or says that it is not so, or
where both say the same of two poles ("turn on", "disable"). That something was not done ("it does
not turn on") is the opposite of what was done, but not of a wish.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from rejoinder.patterns import search_pattern
from rejoinder.text.spelling import COMMON, english


class Sign(Enum):
    """What a text says of a word."""

    OPEN = "asked, or denied in a way that says little of what is wanted"
    WISHED = "to be done, or named"
    SO = "is so, or was done"
    UNWISHED = "not to be done"
    NOT_SO = "is not so, or was not done"


class Said(NamedTuple):
    """The sign of a word, and whether the word is the other pole of a pair: "off", not "on"."""

    sign: Sign
    is_other: bool = False


_OPPOSITES = frozenset(
    frozenset(pair)
    for pair in (
        (Sign.WISHED, Sign.UNWISHED),
        (Sign.SO, Sign.UNWISHED),
        (Sign.SO, Sign.NOT_SO),
    )
)
_SAME_OF_POLES = frozenset(
    frozenset(pair) for pair in ((Sign.WISHED, Sign.UNWISHED), (Sign.SO, Sign.NOT_SO))
)
_DENIALS = (Sign.UNWISHED, Sign.NOT_SO)
MOST_WORDS = 60  # of a text; a longer one is not a plain statement
_TOKEN = search_pattern(r"[^\W_]+(?:'[^\W_]+)?+|[.,;:!?]")
_APOSTROPHE = search_pattern(r"[\u2018\u2019\u00b4`]")
_NOT = search_pattern(
    r"\b(do|does|did|is|are|was|were|has|have|had|would|should|must|need|could|might|ai|ca|wo)"
    r"[ ']?n[ ']?t\b"
)
_PREFIX = search_pattern(r"\b(un|de|dis)-(?=[^\W_])")
# Phrases, and what they are read as.
_PHRASES = (
    (search_pattern(r"\b(?:no longer|by no means|on no account|in no way)\b"), "not"),
    (search_pattern(r"\bunder no circumstances?\b"), "not"),
    (search_pattern(r"\bnot (?:you|u) dare\b"), "not"),
    (search_pattern(r"\bafter all\b"), ""),
)


def _table(text: str) -> dict[str, str]:
    """Return what each word before a colon becomes, of lines `WORD WORD: OTHER`."""
    pairs = (line.split(":") for line in text.strip().splitlines())
    return {word: other.strip() for words, other in pairs for word in words.split()}


_SHORT = {"m": "am", "re": "are", "ve": "have", "ll": "will", "d": "would"}  # behind an apostrophe
_VERBS = {"ai": "is", "ca": "can", "wo": "will"}  # before "n't"
_CONTRACTED = _table("""
im: i am
ive: i have
thats: that is
theres there's: there is
cannot: can not
login: log in
logout: log out
never: not
""")
_IRREGULAR = _table("""
came comes coming: come
got gets gotten getting: get
broke broken breaks breaking: break
sent sends sending: send
paid pays paying: pay
forgot forgotten forgets: forget
bought buys buying: buy
sold sells selling: sell
kept keeps keeping: keep
went gone goes going: go
lost loses losing: lose
found finds finding: find
left leaves leaving: leave
took taken takes taking: take
gave given gives giving: give
stole stolen steals stealing: steal
wrote written writes writing: write
said says saying: say
told tells telling: tell
made makes making: make
chose chosen chooses choosing: choose
drove driven drives driving: drive
fell fallen falls falling: fall
flew flown flies flying: fly
froze frozen freezes freezing: freeze
held holds holding: hold
knew known knows knowing: know
met meets meeting: meet
rang rung rings ringing: ring
ran runs running: run
saw seen sees seeing: see
shook shaken shakes shaking: shake
spent spends spending: spend
spoke spoken speaks speaking: speak
tore torn tears tearing: tear
won wins winning: win
wore worn wears wearing: wear
brought brings bringing: bring
built builds building: build
caught catches catching: catch
sank sunk sinks sinking: sink
shipping shipped ships: ship
stopping stopped stops: stop
subscription: subscribe
activation: activate
deactivation: deactivate
cancellation cancelled canceled cancels cancelling canceling: cancel
""")
# Both poles of pairs: the first word stands for all. "un" makes the other pole of any word.
_POLES = """
enable activate active / disable deactivate inactive
lock block bar /
subscribe / deregister
accept / reject decline refuse
increase / decrease reduce lower
add / remove delete erase
open / close shut
find / lose
connect / disconnect
succeed / fail
early / late
"""
_AUXILIARY_WORDS = """
is are was were has have had do does did will would can could should must may might be been being am
"""
_SKIPPED_WORDS = """
a an the my your our his her its their this that these those it me you us him them i we he she they
to of in for at by from with and or any some all ever even really actually just yet still please so
very too again now today already also only more much many there here as than if when someone
anything everything want wants wanted need needs needed wish wishes plan plans ask asked asking
intend intends going gonna wanna mean meant think thinks believe believes let make makes made try
tries tried tell allowed supposed on off out up back before after get have re longer unless
anymore
"""
_UNSURE_WORDS = """
sure know like agree clear understand aware certain remember recall problem worry mind hesitate
matter care possible able
"""
_QUESTION_WORDS = "when where has have had did is are was were will does which who"
_WISHING_WORDS = "i we please to but and rather better prefer like decided"  # before "do not"
_WISH_WORDS = "want wants need please would like with"
_ENDING_STEMS = "cancel end stop quit terminat return rid"  # what ends what else a text names
_STOP_WORDS = "stop undo lift withdraw revoke reverse ignore"
_BARE_WORDS = "please do not no way but so it that this"  # "please do not": of the sentence before
_PAST = frozenset(
    word
    for word, base in _IRREGULAR.items()
    if not word.endswith(("ing", "ion", "ed")) and word not in (f"{base}s", f"{base}es")
) | {"cut", "shut", "hit", "hurt", "split"}
_NEGATORS = frozenset(["not", "no", "without"])
_WISHING = frozenset([None, ",", ".", *_WISHING_WORDS.split()])
_ASKED = (["you"], ["i"], ["we"])
_SELF = frozenset(["i", "we"])
_THOUGHT = frozenset(["think", "believe"])
_WANTED = frozenset(["want", "wants", "need", "wish", "like"])
_BE = frozenset(["is", "are", "am", "was", "were", "been"])
_MUST = frozenset(["must", "should", "shall", "need"])
_AUXILIARIES = frozenset(_AUXILIARY_WORDS.split())
_SKIPPED = _AUXILIARIES | frozenset(_SKIPPED_WORDS.split())
_UNSURE = frozenset(_UNSURE_WORDS.split())
_QUESTION = frozenset(_QUESTION_WORDS.split())
_WISH = frozenset(_WISH_WORDS.split())
_ENDING = frozenset(_ENDING_STEMS.split())
_STOP = frozenset(_STOP_WORDS.split())
_BARE = frozenset(_BARE_WORDS.split())
_ABLE = frozenset(["can", "could"])
_ENDS = frozenset(
    [".", ",", ";", ":", "!", "?", "but", "because", "although", "instead", "however"]
)
_SENTENCE_ENDS = frozenset([".", "!", "?"])
_DETERMINERS = frozenset(["the", "my", "our", "this", "that"])
_PRONOUNS = frozenset(["it", "he", "she", "something"])  # before a verb's third person
_CLAUSES = frozenset(["i", "you", "we", "they", "it", "he", "she", "that", "which", "who"])
_SWITCHED = frozenset(["turn", "switch", "toggle"])
_ENTERED = frozenset(["log", "sign"])
_ON_OFF = ("on", "off")
_LACKED = frozenset(["hav", "get", "receiv", "see", "find", "hear"])  # stems
_SEEMING = frozenset(["seem", "appear"])
_NEXT_CLAUSE = frozenset(["can", "could", "how"])  # without a comma before it
_LEAST_REST = 4  # letters of a word behind "un"
_TIME_WORDS = frozenset(["before", "after"])
_TIMES = "before"  # stands for before and, the other pole, after


def opposed(text: str, others: Iterable[str]) -> str | None:
    """Return the first of some texts that says the opposite of one; None if another says the same.

    A word in which they oppose each other does not count where another text agrees in it.
    """
    own = signs(text)
    clashes: dict[str, str] = {}
    agreed = set()
    for other in others:
        theirs = signs(other)
        shared = [word for word in own if word in theirs]
        if shared == [_TIMES]:
            continue
        for word in shared:
            if _clash(own[word], theirs[word]):
                clashes.setdefault(word, other)
            elif _agree(own[word], theirs[word]):
                agreed.add(word)
    return next((other for word, other in clashes.items() if word not in agreed), None)


def agrees_by_poles(text: str, others: Iterable[str]) -> bool:
    """Return whether one of some texts says the same of the other pole: "not found", "lost".

    It has to share another word, so that "do not remove my profile" is not "add a driver".
    """
    own = signs(text)
    for other in others:
        theirs = signs(other)
        shared = [word for word in own if word in theirs]
        agreed = [word for word in shared if own[word].is_other != theirs[word].is_other]
        if len(shared) > 1 and any(_agree(own[word], theirs[word]) for word in agreed):
            return True
    return False


def _clash(own: Said, other: Said) -> bool:
    if own.is_other != other.is_other:
        return own.sign is other.sign is not Sign.OPEN
    return frozenset((own.sign, other.sign)) in _OPPOSITES


def _agree(own: Said, other: Said) -> bool:
    if own.is_other != other.is_other:
        return frozenset((own.sign, other.sign)) in _SAME_OF_POLES
    return own.sign is other.sign is not Sign.OPEN


def denies_a_sentence(text: str) -> bool:
    """Return whether a sentence, as "Please don't", denies the one before it."""
    tokens = _tokens(text)
    return len(tokens) <= MOST_WORDS and bool(_bare_denials(tokens))


def takes_side(text: str) -> bool:
    """Return whether a text denies something, or says the other one of two poles: "off"."""
    return any(said.sign in _DENIALS or said.is_other for said in signs(text).values())


@functools.lru_cache(maxsize=8192)
def signs(text: str) -> Mapping[str, Said]:
    """Return what a text says of each of its content words."""
    tokens = _tokens(text)
    found: dict[str, Said] = {}
    if len(tokens) > MOST_WORDS:
        return found
    is_asked = _is_asked(tokens) and not _bare_denials(tokens)
    denied = _denied(tokens)
    for place, token in enumerate(tokens):
        if not _has_content(tokens, place):
            continue
        word, is_other = _pole(tokens, place)
        is_so = not _BE.isdisjoint(tokens[max(0, place - 2) : place])
        is_so = is_so or (_is_past(token) and not _is_to_be_done(tokens, place))
        is_so = is_so or _is_present(tokens, place)
        sign = denied.get(place, Sign.SO if is_so else Sign.WISHED)
        if is_asked:
            sign = Sign.OPEN
        if word not in found or found[word].sign not in _DENIALS:
            found[word] = Said(sign, is_other)
    ends = {word for word, said in found.items() if said.is_other or word in _ENDING}
    if any(found[word].sign is not Sign.UNWISHED for word in ends):
        # Who cancels an order says nothing of whether it is wanted.
        for word, said in found.items():
            if said.sign is Sign.WISHED and word not in ends:
                found[word] = Said(Sign.OPEN)
    times = {one for one, other in itertools.pairwise(tokens) if other not in _ENDS} & _TIME_WORDS
    if len(times) == 1:
        found[_TIMES] = Said(Sign.WISHED, "after" in times)
    return found


def _tokens(text: str) -> list[str]:
    plain = _APOSTROPHE.sub("'", text.lower())
    plain = _NOT.sub(lambda match: f"{_VERBS.get(match[1], match[1])} not", plain)
    plain = _PREFIX.sub(r"\1", plain)
    for phrase, read in _PHRASES:
        plain = phrase.sub(read, plain)
    return [word for token in _TOKEN.findall(plain) for word in _words(token)]


def _words(token: str) -> list[str]:
    """Return the words of a contraction: "i'm"; of a genitive the noun alone."""
    if token in _CONTRACTED:
        return _CONTRACTED[token].split()
    head, _, short = token.partition("'")
    if short == "s":
        return [head, "is"] if head in _SKIPPED else [head]
    return [head, _SHORT[short]] if short in _SHORT else [token]


def _is_asked(tokens: list[str]) -> bool:
    """Return whether a text asks whether something is so."""
    is_asked_of = tokens[:1] == ["do"] and tokens[1:2] in _ASKED
    return is_asked_of or (bool(tokens) and tokens[0] in _QUESTION)


def _has_content(tokens: list[str], place: int) -> bool:
    token = tokens[place]
    if token in _ON_OFF:
        return _is_switch(tokens, place)
    return token not in _SKIPPED and token not in _ENDS and token not in _NEGATORS


def _is_switch(tokens: list[str], place: int) -> bool:
    """Return whether "on" or "off" stands without a verb, at an end: "notifications off"."""
    before = tokens[place - 1] if place else "on"
    following = tokens[place + 1] if place + 1 < len(tokens) else "."
    is_last = following in _ENDS or following == "please"
    is_said = before in _BE or before in _NEGATORS or before not in _SKIPPED
    return is_last and is_said and not any(_stem(token) in _SWITCHED for token in tokens)


def _denied(tokens: list[str]) -> dict[int, Sign]:
    """Return the signs of the places that a negator denies."""
    found: dict[int, Sign] = {}
    for place in range(len(tokens)):
        if tokens[place] in _NEGATORS or (place not in found and _stops(tokens, place)):
            found |= dict.fromkeys(_scope(tokens, place), _denial(tokens, place))
    found |= dict.fromkeys(_bare_denials(tokens), Sign.UNWISHED)
    unwished = [place for place, sign in found.items() if sign is Sign.UNWISHED]
    objects = itertools.chain.from_iterable(_objects(tokens, place) for place in unwished)
    return dict.fromkeys(objects, Sign.OPEN) | found


def _objects(tokens: list[str], place: int) -> list[int]:
    """Return the places of which nothing is said where a word before them is not to be done.

    Who does not want to reserve a book may want it or not; who does not cancel an order wants it.
    """
    found: list[int] = []
    if _is_end(tokens, place):
        return found
    for at in range(place + 1, len(tokens)):
        if tokens[at] in _ENDS or tokens[at] in _NEXT_CLAUSE:
            break
        if _has_content(tokens, at):
            if _is_end(tokens, at):
                break
            found.append(at)
    return found


def _stops(tokens: list[str], place: int) -> bool:
    """Return whether a word stops what follows: "stop calling", "undo the freeze"."""
    following = tokens[place + 1] if place + 2 <= len(tokens) else ""
    if following.endswith("ing"):
        return _stem(tokens[place]) in ("stop", "against")
    return tokens[place] in _STOP and following in _DETERMINERS


def _bare_denials(tokens: list[str]) -> list[int]:
    """Return the places of sentences before one that only denies, as "Please don't"."""
    found: list[int] = []
    ends = [place for place, token in enumerate(tokens) if token in _SENTENCE_ENDS]
    if not ends:
        return found
    bounds = zip([-1, *ends[:-1]], ends, [*ends[1:], len(tokens)], strict=True)
    for start, middle, last in bounds:
        said = {token for token in tokens[middle + 1 : last] if token not in _ENDS}
        if said <= _BARE and ("not" in said or {"no", "way"} <= said):
            found += [place for place in range(start + 1, middle) if _has_content(tokens, place)]
    return found


def _denial(tokens: list[str], place: int) -> Sign:
    """Return what a negator makes of what it denies."""
    before = tokens[max(0, place - 3) : place]
    if tokens[place] == "not":
        return _denial_by_not(tokens, place, before)
    if tokens[place] != "no":
        return Sign.UNWISHED
    if not _WISH.isdisjoint(before) or tokens[place + 1 : place + 2] == ["need"]:
        return Sign.UNWISHED
    return Sign.OPEN if _BE.isdisjoint(before) else Sign.NOT_SO  # "there is no"


def _denial_by_not(tokens: list[str], place: int, before: list[str]) -> Sign:
    following = tokens[place + 1 : place + 3]
    is_question = place <= 2 and tokens[0] in _AUXILIARIES - {"do"}
    is_question = is_question or (tokens[:2] == ["do", "not"] and tokens[2:3] in _ASKED)
    is_unable = not _ABLE.isdisjoint(before[-1:])
    if is_question or is_unable or tokens[0] in ("why", "how", "what"):
        return Sign.OPEN
    is_lacking = bool(following) and _stem(following[0]) in _LACKED and following[1:] != ["to"]
    if is_lacking or not _THOUGHT.isdisjoint(following):
        return Sign.NOT_SO
    subject = next((token for token in reversed(before) if token not in _AUXILIARIES), None)
    if not _MUST.isdisjoint(before[-1:]):
        is_wish = "have" not in following  # "it should not have been"
    elif not _BE.isdisjoint(before):
        is_wish = subject in _SELF and bool(following) and following[0].endswith("ing")
    else:
        is_wish = subject in _WISHING
    return Sign.UNWISHED if is_wish else Sign.NOT_SO


def _scope(tokens: list[str], place: int) -> list[int]:
    """Return the places that a negator denies: its verb, or the nouns behind "without"."""
    limit = 2 if tokens[place] in ("without", "no") else 1
    found: list[int] = []
    is_thought = False  # "I do not think that": the end of the clause is denied
    for at in range(place + 1, min(len(tokens), place + 9)):
        token = tokens[at]
        if token in _ENDS or token in _NEXT_CLAUSE or _stem(token) in _UNSURE:
            break
        is_thought = is_thought or token in _THOUGHT
        if _has_content(tokens, at):
            found.append(at)
        if len(found) == limit and not is_thought:
            break
    if is_thought:
        return found[-1:]
    result = _unwished_result(tokens, place, found[0]) if found else None
    return found if result is None else [result]


def _unwished_result(tokens: list[str], place: int, noun: int) -> int | None:
    """Return the participle behind a noun, of "I do not want my card blocked"."""
    between = tokens[place + 1 : noun]
    if _WANTED.isdisjoint(between) or "to" in between or _is_past(tokens[noun]):
        return None
    for at in range(noun + 1, min(len(tokens), noun + 4)):
        if tokens[at] in _ENDS or tokens[at] in _CLAUSES:
            return None
        if _is_past(tokens[at]):
            return at
    return None


def _is_to_be_done(tokens: list[str], place: int) -> bool:
    """Return whether a participle is wished: "to be cancelled", "I need it cancelled"."""
    before = tokens[max(0, place - 4) : place]
    is_seen = any(_stem(token) in _SEEMING for token in before)  # "it seems to be cancelled"
    return _is_caused(before) or (before[-1:] == ["be"] and not is_seen)


def _is_caused(before: list[str]) -> bool:
    """Return whether the words before a participle wish it: "I need it cancelled"."""
    for one, other in reversed(list(itertools.pairwise(before))):
        if one in _WANTED or one == "get":
            return True
        if other == "to" or other in _CLAUSES:  # "I want the order you cancelled"
            return False
    return False


def _is_past(word: str) -> bool:
    """Return whether a word is a past form, as what is so or was done has."""
    if word in _PAST:
        return True
    is_noun = word == "hundred" or (word.endswith("eed") and word[:-1] not in english())
    return word.endswith("ed") and len(word) > 4 and not is_noun


def _is_end(tokens: list[str], place: int) -> bool:
    """Return whether a word ends what else a text names: "cancel", "turn off"."""
    word, is_other = _pole(tokens, place)
    return is_other or word in _ENDING


def _is_present(tokens: list[str], place: int) -> bool:
    """Return whether a word ends in the s of a verb behind its subject: "my tooth hurts".

    Plural nouns look alike: so the subject opens a clause, and no other verb follows.
    """
    word = tokens[place]
    following = tokens[place + 1 : place + 2]
    if not word.endswith("s") or word.endswith("ss") or not _AUXILIARIES.isdisjoint(following):
        return False
    clause = [*itertools.takewhile(lambda token: token not in _ENDS, reversed(tokens[:place]))]
    nouns = clause[:-1]
    is_named = 1 <= len(nouns) <= 2 and clause[-1] in _DETERMINERS
    is_named = is_named and _SKIPPED.isdisjoint({*nouns} - {"back"})  # "my back aches"
    return is_named or not _PRONOUNS.isdisjoint(clause[:1])


def _pole(tokens: list[str], place: int) -> tuple[str, bool]:
    """Return the word for both poles of a pair, and whether a word is the other pole."""
    word = tokens[place]
    stem = _stem(word)
    switch, _ = _pole_of_word("enable")
    if word in _ON_OFF:
        return switch, word == "off"
    near = tokens[place + 1 : place + 7]
    if stem in _SWITCHED:
        state = next((each for each in near if each in _ON_OFF), None)
        return (stem, False) if state is None else (switch, state == "off")
    if stem in _ENTERED:
        return stem, "off" in near or near[:1] == ["out"]
    return _pole_of_word(word)


@functools.lru_cache(maxsize=8192)
def _pole_of_word(word: str) -> tuple[str, bool]:
    stem = _stem(word)
    rest = word[2:]
    if stem in _poles():
        return _poles()[stem]
    if word.startswith("re") and _stem(rest) in _poles():
        return _poles()[_stem(rest)]
    if word.startswith("un") and len(rest) >= _LEAST_REST and _stem(rest) in _english_stems():
        base, is_other = _pole_of_word(rest)
        return base, not is_other
    return stem, False


@functools.lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    if word in _IRREGULAR:
        return _root(_IRREGULAR[word])
    if word.endswith("ss"):
        return word
    for ending in ("ing", "ied", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + ("y" if ending == "ied" else "")
            break
    return _root(word)


def _root(word: str) -> str:
    ends_twice = len(word) > 4 and word[-1] == word[-2] and word[-1] not in "sl"
    return word[:-1] if ends_twice or (len(word) > 3 and word.endswith("e")) else word


@functools.cache
def _poles() -> Mapping[str, tuple[str, bool]]:
    """Return of each stem the one that stands for both poles, and whether it is the other pole."""
    found: dict[str, tuple[str, bool]] = {}
    for line in _POLES.strip().splitlines():
        poles = [[_stem(word) for word in words.split()] for words in line.split("/")]
        for is_other, stems in enumerate(poles):
            found |= dict.fromkeys(stems, (poles[0][0], bool(is_other)))
    return found


@functools.cache
def _english_stems() -> frozenset[str]:
    return frozenset(_stem(word) for word, rank in english().items() if rank < COMMON)
