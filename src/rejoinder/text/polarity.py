"""Whether two texts say the opposite of the same thing: "cancel my order", "do not cancel it".

Encoders put both side by side. Here each content word gets a `Sign`. Texts oppose each other in a
word that they share: where one wishes that it is not done, or says the other pole of a pair ("turn
off"), or where one says that it is so and the other that it is not. That something was not done
("it does not turn on") is the opposite of what was done, but not of a wish.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from enum import Enum

from rejoinder.patterns import search_pattern


class Sign(Enum):
    """What a text says of a word."""

    OPEN = "asked, or denied in a way that says little of what is wanted"
    WISHED = "to be done, or named"
    SO = "is so, or was done"
    UNWISHED = "not to be done"
    NOT_SO = "is not so, or was not done"


_OPPOSITES = frozenset(
    frozenset(pair)
    for pair in (
        (Sign.WISHED, Sign.UNWISHED),
        (Sign.SO, Sign.UNWISHED),
        (Sign.SO, Sign.NOT_SO),
    )
)
_OTHER_POLE = {
    Sign.OPEN: Sign.OPEN,
    Sign.WISHED: Sign.UNWISHED,
    Sign.SO: Sign.NOT_SO,
    Sign.UNWISHED: Sign.WISHED,
    Sign.NOT_SO: Sign.SO,
}
_DENIALS = (Sign.UNWISHED, Sign.NOT_SO)
MOST_WORDS = 60  # of a text; a longer one is not a plain statement
_TOKEN = search_pattern(r"[^\W_]+(?:['\u2019][^\W_]+)?+|[.,;:!?]")


def _table(text: str) -> dict[str, str]:
    """Return what each word before a colon becomes, of lines `WORD WORD: OTHER`."""
    pairs = (line.split(":") for line in text.strip().splitlines())
    return {word: other.strip() for words, other in pairs for word in words.split()}


_CONTRACTED = _table("""
dont don't: do not
doesnt doesn't: does not
didnt didn't: did not
isnt isn't aint ain't: is not
arent aren't: are not
wasnt wasn't: was not
werent weren't: were not
hasnt hasn't: has not
havent haven't: have not
hadnt hadn't: had not
wont won't: will not
wouldnt wouldn't: would not
shouldnt shouldn't: should not
mustnt mustn't: must not
neednt needn't: need not
cannot cant can't: can not
couldnt couldn't: could not
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
cancellation cancelled canceled cancels cancelling canceling: cancel
activation: activate
""")
# the other pole of a pair, and the word for both
_POLES = _table("""
disable: enable
deactivate: activate
unsubscribe deregister: subscribe
reject decline refuse: accept
decrease reduce lower: increase
remove delete erase: add
unlock unblock: lock
unfreeze: freeze
close shut: open
logout: login
disconnect: connect
uninstall: install
decline: accept
fail: succeed
late: early
""")
_AUXILIARY_WORDS = """
is are was were has have had do does did will would can could should must may might be been being am
"""
_SKIPPED_WORDS = """
a an the my your our his her its their this that these those it me you us him them i we he she they
to of in for at by from with and or any some all ever even really actually just yet still please so
very too again now today already also only more much many there here as than if when someone
anything everything want wants wanted need needs needed wish wishes plan plans ask asked asking
intend intends going gonna wanna mean meant think thinks believe believes let make makes made try
tries tried tell allowed supposed on off out up back before after get have
"""
_UNSURE_WORDS = """
sure know like agree clear understand aware certain remember recall problem worry mind hesitate
matter care possible able
"""
_QUESTION_WORDS = "when where has have had did is are was were will does which who"
_WISH_WORDS = "want wants need please would like with"
_PAST = frozenset(
    word
    for word, base in _IRREGULAR.items()
    if not word.endswith(("ing", "ion", "ed")) and word not in (f"{base}s", f"{base}es")
) | {"cut", "shut", "hit", "hurt", "split"}
_NEGATORS = frozenset(["not", "no", "without"])
_WISHING = frozenset([None, "i", "we", "please", "to", "but", "and", ",", "."])  # before "do not"
_ASKED = (["you"], ["i"], ["we"])
_THOUGHT = frozenset(["think", "believe"])
_BE = frozenset(["is", "are", "was", "were", "been"])
_AUXILIARIES = frozenset(_AUXILIARY_WORDS.split())
_SKIPPED = _AUXILIARIES | frozenset(_SKIPPED_WORDS.split())
_UNSURE = frozenset(_UNSURE_WORDS.split())
_QUESTION = frozenset(_QUESTION_WORDS.split())
_WISH = frozenset(_WISH_WORDS.split())
_ABLE = frozenset(["can", "could"])
_ENDS = frozenset(
    [".", ",", ";", ":", "!", "?", "but", "because", "although", "instead", "however"]
)
_SWITCHED = frozenset(["turn", "switch", "log", "sign", "toggle"])
_TIMES = "before"  # stands for before (1) and after (-1)


def opposed(text: str, others: Iterable[str]) -> str | None:
    """Return the first of some texts that says the opposite of one; None if any denies the same."""
    own = signs(text)
    if not own:
        return None
    found = None
    for other in others:
        theirs = signs(other)
        shared = own.keys() & theirs.keys()
        if not shared:
            continue
        clashes = [word for word in shared if frozenset((own[word], theirs[word])) in _OPPOSITES]
        if clashes and shared != {_TIMES}:
            found = found or other
        elif any(own[word] in _DENIALS and theirs[word] in _DENIALS for word in shared):
            return None
    return found


@functools.lru_cache(maxsize=8192)
def signs(text: str) -> Mapping[str, Sign]:
    """Return the sign of each content word of a text."""
    tokens = _tokens(text)
    found: dict[str, Sign] = {}
    if len(tokens) > MOST_WORDS:
        return found
    is_asked = bool(tokens) and tokens[0] in _QUESTION  # whether something is so is asked
    denied = _denied(tokens)
    for place, token in enumerate(tokens):
        if token in _SKIPPED or token in _ENDS or token in _NEGATORS:
            continue
        word, is_pole = _pole(tokens, place, _stem(token))
        is_so = _is_past(token) or not _BE.isdisjoint(tokens[max(0, place - 2) : place])
        sign = denied.get(place, Sign.SO if is_so else Sign.WISHED)
        sign = _OTHER_POLE[sign] if is_pole else sign
        if is_asked:
            sign = Sign.OPEN
        if found.get(word, Sign.OPEN) not in _DENIALS:
            found[word] = sign
    if ("before" in tokens) != ("after" in tokens):
        found[_TIMES] = Sign.WISHED if "before" in tokens else Sign.UNWISHED
    return found


def _tokens(text: str) -> list[str]:
    plain = text.lower().replace("\u2019", "'")
    tokens = [_CONTRACTED.get(token, token) for token in _TOKEN.findall(plain)]
    return [word for token in tokens for word in token.split()]


def _denied(tokens: list[str]) -> dict[int, Sign]:
    """Return the signs of the places that a negator denies."""
    found: dict[int, Sign] = {}
    for place, token in enumerate(tokens):
        is_end_of = _stem(token) == "stop" and tokens[place + 1 : place + 2] != []
        if token in _NEGATORS or (is_end_of and tokens[place + 1].endswith("ing")):
            found |= dict.fromkeys(_scope(tokens, place), _denial(tokens, place))
    return found


def _denial(tokens: list[str], place: int) -> Sign:
    """Return what a negator makes of what it denies."""
    before = tokens[max(0, place - 3) : place]
    if tokens[place] == "no":
        is_wish = not _WISH.isdisjoint(before) or tokens[place + 1 : place + 2] == ["need"]
        return Sign.UNWISHED if is_wish else Sign.OPEN
    if tokens[place] != "not":
        return Sign.UNWISHED
    is_question = place <= 2 and tokens[0] in _AUXILIARIES - {"do"}
    is_question = is_question or (tokens[:2] == ["do", "not"] and tokens[2:3] in _ASKED)
    is_unable = bool(before) and before[-1] in _ABLE
    if is_question or is_unable or tokens[0] in ("why", "how", "what"):
        return Sign.OPEN
    following = tokens[place + 1 : place + 3]
    is_lacking = following[:1] in (["have"], ["get"]) and following[1:] != ["to"]
    if is_lacking or not _THOUGHT.isdisjoint(following):
        return Sign.NOT_SO
    subject = next((token for token in reversed(before) if token not in _AUXILIARIES), None)
    return Sign.UNWISHED if subject in _WISHING and not _BE.intersection(before) else Sign.NOT_SO


def _scope(tokens: list[str], place: int) -> list[int]:
    """Return the places that a negator denies: its verb, or the nouns behind "without"."""
    limit = 2 if tokens[place] in ("without", "no") else 1
    found: list[int] = []
    is_thought = False  # "I do not think that": the end of the clause is denied
    for at in range(place + 1, min(len(tokens), place + 9)):
        token = tokens[at]
        if token in _ENDS or _stem(token) in _UNSURE:
            break
        is_thought = is_thought or token in _THOUGHT
        if token not in _SKIPPED:
            found.append(at)
        if len(found) == limit and not is_thought:
            break
    return found[-1:] if is_thought else found


def _is_past(token: str) -> bool:
    """Return whether a word is a past form, as what is so or was done has."""
    return token in _PAST or (token.endswith("ed") and len(token) > 4)


def _pole(tokens: list[str], place: int, stem: str) -> tuple[str, bool]:
    """Return the word for both poles of a pair, and whether a word is the other pole."""
    other = _poles().get(stem)
    if other is not None:
        return other, True
    if stem in _SWITCHED:
        near = tokens[place + 1 : place + 7]
        is_off = "off" in near or (stem in ("log", "sign") and near[:1] == ["out"])
        return "turn" if stem == "switch" else stem, is_off
    return stem, False


@functools.lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending in ("ing", "ied", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + ("y" if ending == "ied" else "")
            break
    return _root(word)


def _root(word: str) -> str:
    ends_twice = len(word) > 4 and word[-1] == word[-2] and word[-1] not in "sl"
    return word[:-1] if ends_twice or (len(word) > 3 and word.endswith("e")) else word


@functools.cache
def _poles() -> Mapping[str, str]:
    return {_stem(word): _stem(other) for word, other in _POLES.items()}
