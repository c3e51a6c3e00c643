"""Words of denial, and pairs of opposite words, in seven languages.

English ones are those of the rules of polarity and more; of the other languages the usual ones.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from rejoinder.text.dates import without_accents
from rejoinder.text.signs.inflections import stem_of
from rejoinder.text.signs.lexicon import NEGATORS
from rejoinder.text.signs.poles import pole_of_word

_DENYING_WORDS = """
never cannot none neither cant wont dont doesnt isnt arent wasnt didnt hasnt havent couldnt
nicht nichts kein keine keinen keinem keiner keines nie niemals nein niemand ohne
pas jamais non aucun aucune
nunca jamás ningún ninguna nadie
nessuno nessuna senza niente
não nunca nenhum nenhuma sem
niet geen nee nooit zonder niemand
"""
_DENYING = NEGATORS | frozenset(_DENYING_WORDS.split())
DENIALS = _DENYING | frozenset(map(without_accents, _DENYING))
YES = frozenset("yes ja oui sí si sì sim".split())  # noqa: SIM905
NO = frozenset("no nein non nee não nao".split())  # noqa: SIM905
# What a pleasantry denies: "no problem", "don't worry", "pas de souci".
_PLEASANT = frozenset(
    """problem problems worry worries worried hesitate trouble bother sorge sorgen souci soucis
    problème problema problemas preocupe preocupes preoccupi""".split()  # noqa: SIM905
)
_LINKS = frozenset("de a to need se si ti".split())  # noqa: SIM905
_NEGATIVE = "un in im ir il dis non de dés des désa desa deés ent".split()  # noqa: SIM905
_PREFIXES = (
    ("in", "de"),
    ("in", "ex"),
    ("im", "ex"),
    ("in", "out"),
    ("up", "down"),
    ("on", "off"),
    ("under", "over"),
    ("min", "max"),
    ("en", "dis"),
    ("ein", "aus"),
    ("an", "ab"),
    ("an", "aus"),
    ("auf", "ab"),
    ("in", "uit"),
    ("aan", "af"),
    ("a", "desa"),
    ("a", "disa"),
    ("at", "disat"),
)
_PAIRS = """
on/off in/out up/down before/after left/right more/less more/fewer higher/lower highest/lowest
most/least longer/shorter inside/outside above/below do/undo all/none buy/sell first/last
an/aus ein/aus auf/zu vor/nach mehr/weniger öffnen/schliessen öffnet/schliesst
geöffnet/geschlossen offen/geschlossen kaufen/verkaufen
avant/après plus/moins ouvert/fermé ouverte/fermée ouvre/ferme ouvrir/fermer avec/sans
antes/después más/menos abierto/cerrado abre/cierra abrir/cerrar con/sin
prima/dopo più/meno aperto/chiuso apre/chiude antes/depois mais/menos aberto/fechado abre/fecha
com/sem voor/na aan/uit open/gesloten met/zonder
"""
_LEAST_REST = 4  # letters behind a prefix that denies; others stand before two
Face = tuple[str, bool]


def count_denials(words: Sequence[str], places: Iterable[int]) -> int:
    """Return how many of some words deny, pleasantries ("no problem") aside."""
    return sum(_denies(words, place) for place in places)


def _denies(words: Sequence[str], place: int) -> bool:
    word = words[place]
    if word == "t":  # of "can't"
        word = "not" if place and words[place - 1].endswith("n") else ""
    if word not in DENIALS:
        return False
    following = [*words[place + 1 : place + 4], ""]
    if following[0] in _LINKS:
        following = following[1:]
    is_number = word == "no" and following[0][:1].isdigit()  # "order no. 12"
    return not is_number and following[0] not in _PLEASANT


def are_opposed(words: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether one of some words is the opposite of one of others."""
    faces = {face for word in words for face in _faces(word)}
    return any((key, not side) in faces for word in others for key, side in _faces(word))


@functools.lru_cache(maxsize=8192)
def _faces(word: str) -> frozenset[Face]:
    """Return the pairs that a word may belong to, and as which part."""
    base, is_other = pole_of_word(word)
    faces = {(f"pole {base}", is_other), *_pairs().get(word, ())}
    for form in {word, stem_of(word)}:
        faces.add((form, False))
        faces |= {
            (form[len(prefix) :], True)
            for prefix in _NEGATIVE
            if form.startswith(prefix) and len(form) >= len(prefix) + _LEAST_REST
        }
        for pair in _PREFIXES:
            for is_second, prefix in enumerate(pair):
                if form.startswith(prefix) and len(form) > len(prefix) + 2:
                    faces.add((f"{'/'.join(pair)} {form[len(prefix) :]}", bool(is_second)))
    return frozenset(faces)


@functools.cache
def _pairs() -> dict[str, set[Face]]:
    faces: dict[str, set[Face]] = {}
    for pair in _PAIRS.split():
        for is_second, word in enumerate(pair.split("/")):
            for form in (word, without_accents(word)):
                faces.setdefault(form, set()).add((pair, bool(is_second)))
    return faces
