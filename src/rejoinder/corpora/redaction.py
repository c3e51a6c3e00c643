"""Personal data in texts, by its form: e-mail addresses, IBANs, card numbers, phone numbers.

Names and postal addresses are not found: that takes a language model, such as those of Presidio.
docs/data.md lists the forms that are missed. All of it takes time linear in a text's length: what
may be a number is looked at in pieces of at most 60 characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from rejoinder.corpora.schema import Example
from rejoinder.patterns import match_pattern, search_pattern

# Most texts have none of these, and are looked at once.
_MAY_HAVE_EMAIL = search_pattern(r"@|[(\[{<] ?[Aa][Tt] ?[)\]}>]| [Dd][Oo][Tt] ")
_MAY_HAVE_NUMBER = search_pattern(r"\d(?:[ ()./_\t-]{0,3}\d){5}")

# The local part of an address, from its first character; an apostrophe stands between letters.
_LOCAL = r"(?<![\w.+%&-])(?<!\w')(?:[\w.+%&-]|(?<=\w)'(?=\w))"
_TOP = r"[^\W\d_][\w-]*+"  # of a domain; no price: "3 shirts @ 9.99"
_EMAIL = search_pattern(
    rf"{_LOCAL}++ ?@ ?(?:[\w-]++\.)+{_TOP}"
    rf"|{_LOCAL}++@\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?!\w)"
    rf"|{_LOCAL}{{1,64}}+ ?[(\[{{<] ?(?:at|@) ?[)\]}}>] ?"
    rf"(?:[\w-]++(?:\.| ?[(\[{{<] ?(?:dot|\.) ?[)\]}}>] ?| dot ))+{_TOP}"
    rf"|{_LOCAL}{{1,64}}+ at (?:[\w-]++ dot )+{_TOP}",
    re.IGNORECASE,
)
_IBAN_LENGTHS = {
    country: int(length)
    for length, countries in {
        "15": "NO", "16": "BE", "18": "DK FO FI GL NL FK SD", "19": "MK SI",
        "20": "AT BA EE KZ XK LT LU MN", "21": "HR LV LI CH", "22": "BG CR DE GE IE ME RS GB BH VA",
        "23": "GI IL IQ OM SO TL AE", "24": "AD CZ MD PK RO SA SK ES SE TN VG",
        "25": "LY PT ST", "26": "IS TR", "27": "BI DJ FR GR IT MR MC SM",
        "28": "AL AZ BY CY DO SV GT HN HU LB NI PL", "29": "BR EG PS QA UA",
        "30": "JO KW MU YE", "31": "MT SC", "32": "LC", "33": "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
"""Characters of an IBAN by country (ISO 13616's registry)."""
_IBAN = search_pattern(
    rf"(?<![A-Za-z0-9])(?=((?:{'|'.join(_IBAN_LENGTHS)}) ?\d[ ._-]?\d"
    r"(?:[ ._\t-]{0,2}[A-Za-z0-9]){11,30}+))[A-Za-z]",  # what follows may begin a number, too
    re.IGNORECASE,
)
# Parameters of an address or a form whose value is a card's number, while others may be of things.
_CARD_IS = "".join(
    rf"|(?<=card{name}=)" for name in ("", "no", "nr", "num", "number", "_no", "_number", "-number")
)
_CARD = search_pattern(
    rf"(?=[2-6])(?:(?<![\w/=-]){_CARD_IS})(?:"
    r"[2-6]\d{3}[ .-]{0,2}\d{4}[ .-]{0,2}\d{4}[ .-]{0,2}\d{1,7}"
    r"|3\d{3}[ .-]{0,2}\d{6}[ .-]{0,2}\d{4,5}"
    # In columns: of issuers of cards, and not among other columns of four digits.
    r"|(?<!\b\d{4}\t)(?:[46]\d|5[1-5]|2[2-7])\d\d(?:\t\d{4}){3}(?!\t\d{4}\b)"
    r"|3[47]\d\d\t\d{6}\t\d{5}"
    r")(?![\w-])",
    re.IGNORECASE,
)
_OF_DEVICE = search_pattern(r"\bimei[^\w\n]{0,4}\Z", re.IGNORECASE)  # a number of Luhn's check, too
_GAP = "[ ()./-]{0,3}"
_PHONES = (
    # With a country code.
    rf"\(?(?:\+ ?|\b00(?=[1-9]))\d(?:{_GAP}\d){{6,14}}+",
    # In columns, and not among other columns of numbers.
    r"(?<!\d\t)\+(?=(?:\t?\d){9,15}+(?!\d))(?:[17]|[2-9]\d\d?)(?:\t\d{2,10}){2,4}(?!\t[+\d])",
    # With a leading zero, if it is not a date.
    rf"\(?0\)?(?!\d?[./-]\d{{1,2}}[./-]\d{{2,4}}(?![./-]?\d))[1-9](?:{_GAP}\d){{7,10}}",
    # Of North America: (202) 555-0143.
    r"(?:1[ .-]?)?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])\d{3}[ .-]\d{4}",
    # Of Brazil, and of Mexico: (11) 98765-4321.
    r"(?:\([1-9]\d\) ?|[1-9]\d[ -])9?\d{4}[ .-]\d{4}",
    # Of Spain, Portugal and Poland; of Spain and France in pairs; of India; of China.
    r"[4-9]\d\d([ .-])\d{3}\1\d{3}",
    r"[6-9]\d\d(?:[ .-]\d\d){3}|[89]\d[ .-]\d{3}[ .-]\d\d[ .-]\d\d",
    r"[6-9]\d{4}[ -]\d{5}",
    r"1[3-9]\d[ -]\d{4}[ -]\d{4}",
    # Of Russia: 8 (912) 345-67-89.
    r"[78][ -]?\(?9\d\d\)?[ -]?\d{3}[ -]?\d\d[ -]?\d\d",
    # Without any mark: of North America, India and Italy, Brazil and China, Spain.
    r"[2-9]\d\d[2-9]\d{6}|[36-9]\d{9}|[1-9][1-9]9\d{8}|1[3-9]\d{9}|[6-9]\d{8}",
)
_PHONE = search_pattern(
    rf"(?<![\w+/=&#-])(?<!\d[.,:])(?:{'|'.join(_PHONES)})"
    r"(?![\w/-])(?![.,:]\d)(?! ?(?:[$€£]|(?:eur|usd)\b))",
    re.IGNORECASE,
)
# Any number of 6 digits or more behind a word for a telephone.
_CALLED = search_pattern(
    r"\b(?:tel|phone|telephone|telefono?|teléfono|téléphone|mobile?|m[oó]vil|cell|cellphone|fax"
    r"|whatsapp|handy|portable|celular|telefone|call(?: me)?(?: on| at)?)"
    r"(?: ?(?:no|nr|number|nummer))?[.:]? ?[:=]? ?"
    r"(?=[+(\d])(?P<number>\+?\(?\d(?:[ ()./-]{0,2}\d){5,14})(?![\w-])",
    re.IGNORECASE,
)
_DATE = match_pattern(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}")
_BEFORE = 40  # characters before a number in which a word may say that it is of a thing
_WORD = search_pattern(r"[^\W\d_]++\.?|[\d.!?\n]")
_THINGS = frozenset(
    """order orders ordered po purchase invoice inv receipt serial sn ref reference ticket case
    claim tracking track parcel package shipment consignment sku item items model part article
    product batch lot isbn ean upc asin gtin imei mac vin booking reservation confirmation
    transaction payment contract policy licence license version build code coupon voucher id rma
    quote quantity qty price total bestellung bestellnummer bestellnr auftrag auftragsnummer
    rechnung rechnungsnummer
    kundennummer seriennummer artikel artikelnummer sendung sendungsnummer vorgang vorgangsnummer
    commande facture colis référence pedido factura serie referencia ordine fattura spedizione
    encomenda bestelling factuur zamówienie faktura""".split()  # noqa: SIM905
)
"""Words before a number by which it is of a thing, and no telephone's."""
_OF_PERSON = search_pattern(r"\b[Mm]y (?:new |own )?number\b\D{0,8}\Z")
_SHORT = frozenset(("ref.", "inv.", "ord.", "ser.", "art.", "no.", "nr."))  # end no sentence
_CALLS = frozenset(
    """call called phone telephone tel telefon mobile mobil cell whatsapp fax ring dial text sms
    reach contact telefono teléfono móvil téléphone handy nummer rufnummer celular
    telefone""".split()  # noqa: SIM905
)


class _Plain(dict[int, str]):
    """Characters by which forms are known, each for one of Unicode: digits, spaces, hyphens."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if category == "Nd":
            plain = str(unicodedata.decimal(char))
        elif category in ("Zs", "Cf"):
            plain = " "
        elif category == "Pd" or char == "\N{MINUS SIGN}":
            plain = "-"
        else:
            compatible = unicodedata.normalize("NFKC", char)
            plain = compatible if len(compatible) == 1 and compatible.isascii() else char
        self[code] = plain
        return plain


_PLAIN = _Plain({code: chr(code) for code in range(0x80)})
_ACCENTS = ("Mn", "Mc")  # characters of their own behind a letter, and vowels of Indian scripts
_UNSEEN = "Cf"  # soft hyphens, joiners, marks of direction


def redact(text: str, counts: Counter[str] | None = None) -> str:
    """Replace personal data by <email>, <iban>, <card> and <phone>; count it in `counts`."""
    # Position by position the same text, so that what is found in it is cut out of the other.
    plain = text if text.isascii() else text.translate(_PLAIN)
    kinds = _NUMBERS if _MAY_HAVE_NUMBER.search(plain) else {}
    if _MAY_HAVE_EMAIL.search(plain):
        kinds = {"email": partial(_emails, text), **kinds}
    for kind, find in kinds.items():
        pieces = []
        plain_pieces = []
        end = 0
        for start, stop in find(plain):
            mark = f"<{kind}>"
            pieces += [text[end:start], mark]
            plain_pieces += [plain[end:start], mark]
            end = stop
            if counts is not None:
                counts[kind] += 1
        if pieces:
            text = "".join([*pieces, text[end:]])
            plain = "".join([*plain_pieces, plain[end:]])
    return text


def redact_example(example: Example) -> Example:
    """Redact the texts of an example; its id and thread stay."""
    return replace(
        example,
        context=tuple(map(redact, example.context)),
        response=redact(example.response),
        candidates=tuple(map(redact, example.candidates)),
    )


def _emails(text: str, plain: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of addresses, which are read without accents and unseen characters."""
    if text.isascii():
        yield from (match.span() for match in _EMAIL.finditer(plain))
        return
    left_out = (*_ACCENTS, _UNSEEN)
    places = [at for at, char in enumerate(text) if unicodedata.category(char) not in left_out]
    for match in _EMAIL.finditer("".join(plain[at] for at in places)):
        end = places[match.end() - 1] + 1
        while end < len(text) and unicodedata.category(text[end]) in _ACCENTS:
            end += 1
        yield places[match.start()], end


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of IBANs: of their country's length, and mod 97 is 1 (ISO 13616)."""
    for match in _IBAN.finditer(text):
        iban = match[1]
        places = [position for position, char in enumerate(iban) if char.isalnum()]
        plain = "".join(iban[position] for position in places).upper()
        length = _IBAN_LENGTHS.get(plain[:2], 0)
        if not 0 < length <= len(plain):
            continue
        end = places[length - 1] + 1
        if text[match.start() + end : match.start() + end + 1].isalnum():
            continue
        plain = plain[:length]
        digits = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
        if int(digits) % 97 == 1:
            yield match.start(), match.start() + end


def _cards(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of numbers that fulfil Luhn's check (ISO/IEC 7812)."""
    for match in _CARD.finditer(text):
        digits = [int(char) for char in reversed(match[0]) if char.isdecimal()]
        doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
        is_right = any(digits) and (sum(digits[::2]) + sum(doubled)) % 10 == 0
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        if is_right and not _OF_DEVICE.search(before):
            yield match.span()


def _phones(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of phone numbers, but for those that a word before them says are none."""
    called = [match.span("number") for match in _CALLED.finditer(text)]
    spans = [span for span in called if not _DATE.match(text[span[0] : span[1]])]
    spans += [
        match.span()
        for match in _PHONE.finditer(text)
        if text[match.start()] in "+(" or not _is_of_thing(text, match)
    ]
    end = 0
    for start, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= end:
            yield start, stop
            end = stop


def _is_of_thing(text: str, match: re.Match[str]) -> bool:
    """Return whether the nearest word that says what a number is of names a thing."""
    before = unicodedata.normalize("NFC", text[max(0, match.start() - _BEFORE) : match.start()])
    if _OF_PERSON.search(before):
        return False
    for word in reversed(_WORD.findall(before)):
        folded = word.casefold()
        if folded in _SHORT:
            folded = folded.rstrip(".")
        if folded in _THINGS:
            return True
        if folded in _CALLS or folded[-1] in ".!?\n" or folded.isdecimal():
            return False
    return False


_NUMBERS: dict[str, Callable[[str], Iterator[tuple[int, int]]]] = {
    "iban": _ibans,
    "card": _cards,
    "phone": _phones,
}
KINDS = ("email", *_NUMBERS)
