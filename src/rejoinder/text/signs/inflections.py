"""Words without their endings: "stolen" and "steals" are "steal", "boxes" is "box"."""

from __future__ import annotations

import functools

from rejoinder.text.words.english import COMMON, english


def read_table(text: str) -> dict[str, str]:
    """Return what each word before a colon becomes, of lines `WORD WORD: OTHER`."""
    pairs = (line.split(":") for line in text.strip().splitlines())
    return {word: other.strip() for words, other in pairs for word in words.split()}


_IRREGULAR = read_table("""
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
cancelled canceled cancels cancelling canceling: cancel
""")
# No past forms by their letters; "hate", as its stem would be that of a hat.
_OTHERS = read_table("""
subscription: subscribe
activation: activate
deactivation: deactivate
cancellation: cancel
succeed succeeds succeeded succeeding: succeed
hate hates hated hating: dislike
""")
_FORMS = _IRREGULAR | _OTHERS
_PAST = frozenset(
    word
    for word, base in _IRREGULAR.items()
    if not word.endswith(("ing", "ed")) and word not in (f"{base}s", f"{base}es")
) | {"cut", "shut", "hit", "hurt", "split"}
_UNCHANGED = frozenset(["come", "become", "run"])  # participles that are also present forms


def is_past(word: str) -> bool:
    """Return whether a word is a past form, as what is so or was done has."""
    if word in _PAST:
        return True
    is_noun = word == "hundred" or (word.endswith("eed") and word[:-1] not in english())
    return word.endswith("ed") and len(word) > 4 and not is_noun


def is_participle(tokens: list[str], place: int) -> bool:
    """Return whether a word is a past form; of "come" that is said by "have" before it."""
    if tokens[place] in _UNCHANGED:
        return tokens[place - 1 : place] in (["have"], ["has"], ["had"])
    return is_past(tokens[place])


@functools.lru_cache(maxsize=8192)
def stem_of(word: str) -> str:
    """Return a word without its ending."""
    if word in _FORMS:
        return _root(_FORMS[word])
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
def english_stems() -> frozenset[str]:
    """Return the stems of common English words."""
    return frozenset(stem_of(word) for word, rank in english().items() if rank < COMMON)
