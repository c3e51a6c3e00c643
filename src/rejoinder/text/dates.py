"""Words for weekdays, months, numbers and near days, in seven languages, and their values."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())  # noqa: SIM905
MONTHS = tuple(
    """january february march april may june july august september october november
    december""".split()  # noqa: SIM905
)
SHORT_WEEKDAYS = {
    "mon": "monday",
    "tue": "tuesday",
    "tues": "tuesday",
    "wed": "wednesday",
    "weds": "wednesday",
    "thu": "thursday",
    "thur": "thursday",
    "thurs": "thursday",
    "fri": "friday",
    "sat": "saturday",
    "sun": "sunday",
}
SHORT_MONTHS = {month[:3]: month for month in MONTHS} | {"sept": "september"}
# Of other languages, a language a line: German, French, Spanish, Italian, Portuguese, Dutch.
_WEEKDAYS_OF_OTHERS = """
montag dienstag mittwoch donnerstag freitag samstag sonntag
lundi mardi mercredi jeudi vendredi samedi dimanche
lunes martes miércoles jueves viernes sábado domingo
lunedì martedì mercoledì giovedì venerdì sabato domenica
segunda terça quarta quinta sexta sábado domingo
maandag dinsdag woensdag donderdag vrijdag zaterdag zondag
"""
_MONTHS_OF_OTHERS = """
januar februar märz april mai juni juli august september oktober november dezember
janvier février mars avril mai juin juillet août septembre octobre novembre décembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
januari februari maart april mei juni juli augustus september oktober november december
"""
# From two on; "-": no single word, or an article.
_UNITS = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn
deux trois quatre cinq six - huit neuf dix onze douze treize quatorze quinze seize - - -
dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve
due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici diciassette diciotto -
dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete dezoito dezenove
twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien zeventien achttien negentien
"""  # noqa: E501 (a language a line)
_TENS = """
twenty thirty forty fifty sixty seventy eighty ninety hundred
zwanzig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig hundert
vingt trente quarante cinquante soixante - - - -
veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa cien
venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento
vinte trinta quarenta cinquenta sessenta setenta oitenta noventa cem
twintig dertig veertig vijftig zestig zeventig tachtig negentig honderd
"""
_NEAR_DAYS = """
yesterday today tomorrow
gestern heute morgen
hier aujourd demain
ayer hoy mañana
ieri oggi domani
ontem hoje amanhã
gisteren vandaag morgen
"""
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth"
# Values that are also common words: "may", "it once was", "due", "the sun".
_COMMON = frozenset(
    """may march mars mai mayo mei one once due sei neuf segunda terça terca quarta quinta
    sexta""".split()  # noqa: SIM905
)
_ENDINGS = ("st", "nd", "rd", "th")  # of "24th"


class Value(NamedTuple):
    """A number, a weekday, a month or a near day, and whether its word may be none of these."""

    name: str
    is_common: bool = False


def value_of(word: str) -> Value | None:
    """Return the value of a casefolded word; None: it has none."""
    if word[:1].isdigit():
        plain = word[:-2] if word.endswith(_ENDINGS) and word[:-2].isdecimal() else word
        return Value(plain, is_common=plain == "1")  # "one moment", "a moment"
    known = _values().get(word)
    if known is None and not word.isalpha() and any(map(str.isdigit, word)):
        return Value(word)
    return known


def canonical(word: str) -> str:
    """Return one word for all words of a value, and other words as they are: "five" is "5"."""
    return _canonical_words().get(word, word)


@functools.cache
def _canonical_words() -> Mapping[str, str]:
    plain = {word: value.name for word, value in _values().items() if not value.is_common}
    return plain | {"one": "1"}


@functools.cache
def _values() -> Mapping[str, Value]:
    """Return the values of words; of a word in two languages that of the first."""
    values: dict[str, Value] = {}
    _add(values, zip(WEEKDAYS, WEEKDAYS, strict=True))
    _add(values, zip(MONTHS, MONTHS, strict=True))
    _add(values, ((f"{day}s", day) for day in WEEKDAYS))
    for table, names in (
        (_WEEKDAYS_OF_OTHERS, WEEKDAYS),
        (_MONTHS_OF_OTHERS, MONTHS),
        (_UNITS, tuple(map(str, range(2, 20)))),
        (_TENS, tuple(map(str, range(20, 101, 10)))),
    ):
        for line in table.strip().splitlines():
            _add(values, zip(line.split(), names, strict=True))
    values |= {
        word: value._replace(is_common=True) for word, value in values.items() if word in _COMMON
    }
    common = {**SHORT_WEEKDAYS, **SHORT_MONTHS, "one": "1"}
    common |= {word: f"{place}th" for place, word in enumerate(_ORDINALS.split(), 1)}
    for line in _NEAR_DAYS.strip().splitlines():
        common |= dict(zip(line.split(), ("yesterday", "today", "tomorrow"), strict=True))
    for word, name in common.items():
        values.setdefault(word, Value(name, is_common=True))
    return values


def _add(values: dict[str, Value], pairs: Iterable[tuple[str, str]]) -> None:
    """Add words with and without accents."""
    for word, name in pairs:
        for form in (word, without_accents(word)):
            if form != "-":
                values.setdefault(form, Value(name))


def without_accents(word: str) -> str:
    """Return a word without accents, as people type it in haste."""
    letters = unicodedata.normalize("NFD", word)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
