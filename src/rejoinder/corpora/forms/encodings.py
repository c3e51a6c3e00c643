"""Encodings of text that is not Unicode: Windows code pages, Mac OS Roman, and those of Asia.

In one line, the letters beyond ASCII belong to one language. An encoding fits as far as its letters
do so, and its symbols stand where a text has them. Windows-1252, which Excel writes in Western
Europe, wins unless another encoding fits clearly better. If none fits, charset-normalizer guesses:
it knows more scripts, and takes short texts of Western languages for others.
"""

# ruff: noqa: RUF001 (letters and marks of many languages)
from __future__ import annotations

import codecs
import itertools

from rejoinder.patterns import match_pattern, search_pattern

_SAMPLE = 65_536  # bytes
_BETTER = 0.03  # share of characters by which another encoding fits better than Windows-1252
_FITS = 0.9  # least share of characters that fit
_WESTERN = (
    "äöüßéèàêç",  # German, with the letters of foreign words
    "àâæçéèêëîïôœùûüÿ",  # French
    "áéíóúüñç",  # Spanish
    "áàâãçéêíóôúü",  # Portuguese; of õ see _PORTUGUESE
    "àèéìíîòóùú",  # Italian
    "àçèéíïòóúü",  # Catalan
    "èéêëïóöü",  # Dutch
    "åäöéàü",  # Swedish, Finnish
    "æøåéèêòóôü",  # Danish, Norwegian
    "áæðéíóöúýþ",  # Icelandic
)
_LANGUAGES = {
    "cp1252": _WESTERN,
    "mac_roman": _WESTERN,
    "cp1250": (
        "äöüß",  # German
        "ąćęłńóśźż",  # Polish
        "áčďéěíňóřšťúůýž",  # Czech
        "áäčďéíĺľňóôŕšťúýž",  # Slovak
        "áéíóöőúüű",  # Hungarian
        "čćđšž",  # Croatian, Slovene
        "ăâîşţ",  # Romanian
    ),
    "cp1254": ("çğıöşüâîûi",),  # Turkish; İ has a small i
}
"""Letters of the languages that an encoding is used for, the usual encodings first."""
_GUESSED = [
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r", "mac_roman",
    "shift_jis", "euc_jp", "euc_kr", "gb18030", "big5",
]  # fmt: skip
_PORTUGUESE = "õe", "ãe"  # it has no other õ; Hungarian in Windows-1252 has many
_LINES = 1_000  # that are looked at
_ZEROS = 0.4  # least share of the characters of UTF-16 that have a zero byte
_CONTROL = search_pattern(r"[\x00-\x08\x0e-\x1a]")  # that a text has not
_WORD = search_pattern(r"[A-Za-z\x80-\U0010ffff]+")
_GAPS = search_pattern(r"[\xa0\xad–—…’‘´·×÷]")  # between words, or within one
_EITHER_SIDE = "«»‹›“”„‚•†©€£¥¢¤¬"
_BEFORE = _EITHER_SIDE + "¿¡§¶°±µ"
_BEHIND = _EITHER_SIDE + "®™°½¼¾‰"
_UNITS = match_pattern(r"(?:[A-Za-z]?m)?[²³]+|[A-Za-z]{0,2}[ªº]+|[¹½¼¾]+")


def guess_utf_16(data: bytes) -> str | None:
    """Return the encoding of UTF-16 without a mark, by its zero bytes; None if it is none."""
    data = data[: _SAMPLE // 2 * 2]
    even = data[::2].count(0)
    odd = data[1::2].count(0)
    most = max(even, odd)
    if most < _ZEROS * (len(data) // 2) or min(even, odd) > most // 10:
        return None
    encoding = "utf-16-le" if odd > even else "utf-16-be"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else encoding


def guess_encoding(data: bytes) -> str | None:
    """Return the encoding of text that is not Unicode; None if no encoding fits."""
    data = data[:_SAMPLE]
    fits = {encoding: _fit(data, encoding) for encoding in _LANGUAGES}
    best = max(fits, key=lambda encoding: fits[encoding])
    if fits["cp1252"] >= fits[best] - _BETTER:
        best = "cp1252"
    if fits[best] >= _FITS:
        return best
    from charset_normalizer import from_bytes

    guess = from_bytes(data, cp_isolation=_GUESSED, language_threshold=0.2).best()
    if guess is None:
        return None
    return "cp1252" if "cp1252" in guess.could_be_from_charset else guess.encoding


def _fit(data: bytes, encoding: str) -> float:
    """Return the share of the characters beyond ASCII that fit; -1 if bytes have no character."""
    try:
        text = data.decode(encoding).replace(*_PORTUGUESE)
    except UnicodeDecodeError:
        return -1.0
    count = 0
    fitting = 0
    foreign = (line for line in text.splitlines() if not line.isascii())
    for line in itertools.islice(foreign, _LINES):
        letters = ""
        for word in _WORD.findall(_GAPS.sub(" ", line)):
            if word.isascii() or _UNITS.fullmatch(word):
                continue
            bare = word.lstrip(_BEFORE).rstrip(_BEHIND)
            count += sum(char > "\x7f" for char in bare)
            letters += _letters(bare)
        fitting += max(sum(map(own.__contains__, letters)) for own in _LANGUAGES[encoding])
    return fitting / count if count else 1.0


def _letters(word: str) -> str:
    """Return the letters beyond ASCII of a word, small; not those that cannot stand there."""
    if len(word) > 2 and all(char > "\x7f" for char in word):
        return ""  # words of these languages have some letter of ASCII
    return "".join(
        char.lower()[0]
        for before, char in zip(" " + word, word, strict=False)
        if char > "\x7f" and not (char.isupper() and before.islower())
    )
