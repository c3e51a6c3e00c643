"""Frames and variable parts of replies: what a help desk puts around the words that count.

`plain` takes the frame off a canned reply, for encoders. `Frames` does so in chats, without a list
of phrases: a frame is whatever begins, or ends, many messages that are otherwise different.
`with_placeholders` makes a template of a message. A number, a date or an e-mail address is variable
by its form. A person's name or a place is variable if like messages have other words there.
Redacted names (`<name>`) are variable as they are.
"""

from __future__ import annotations

import html
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rejoinder.corpora.keys import text_key
from rejoinder.patterns import match_pattern, search_pattern
from rejoinder.text.alignment import align

_DIRECTIVE = r"%fill[a-z]{0,20}:[^%\n]{0,200}%|\{[a-z]{2,20}:[^{}\n]{0,200}\}"
PLACEHOLDER = search_pattern(
    r"\{\{\{[^{}]{0,200}\}\}\}|\{\{[^{}]*\}\}|\{%[^%]*%\}|<%[^%]*%>"
    rf"|{_DIRECTIVE}|[#%$]\{{[^{{}}\n]{{1,80}}\}}|\{{[!$][A-Za-z_][\w.:]{{0,80}}\}}"
    r"|\{[A-Za-z_][\w .-]{0,40}\}|<[A-Za-z_][\w .-]{0,40}>"
    r"|\[\[[^\[\]\n]{1,80}\]\]|\[[A-Z][\w .-]{0,40}\]|\u00ab[A-Za-z_]\w{0,40}\u00bb"
    r"|%[A-Za-z_]\w*%|\$\{?[A-Za-z_]\w*\}?"
)
"""Placeholders of a reply: {{x}}, {{{x}}}, {x}, {$x}, {!X.Y}, #{x}, %{x}, ${a.b}, <x>, [X], [[x]],
%x%, $x, "x" in angle quotes, and the fields of text expanders: %filltext:..%, {formtext: ..}."""
_DIRECTIVE_START = match_pattern(r"[%{][a-z]{2,20}:")
_TAG_END = r"""(?:=\s?"[^"<]*+"|=\s?'[^'<]*+'|[^<>])*+>"""  # quoted values may hold ">"
_BREAK = search_pattern(rf"</?(?:p|br|div|li|ul|ol|tr|h[1-6])\b{_TAG_END}", re.IGNORECASE)
_LONE_TAG = search_pattern(
    r"<(?:p|br|div|li|ul|ol|tr|td|th|h[1-6]|hr|b|i|u|em|strong|span|img|font|small|a)\b"
    rf"{_TAG_END}",
    re.IGNORECASE,
)
_TAG = search_pattern(rf"<!--|<(script|style)\b|</?[A-Za-z]{_TAG_END}")
_OPEN_TAG = match_pattern(rf"<[A-Za-z]{_TAG_END}")
_MARKDOWN_LINK = search_pattern(r"!?\[([^\[\]\n]*+)\]\([^()\s]*+\)")
_MARKDOWN = search_pattern(r"(?m)^[ \t]{0,3}(?:#{1,6}|>|[-*+])[ \t]++|\*\*|__|`")
_NUMBER = search_pattern(r"(?m)^[ \t]{0,3}\d{1,2}[.)][ \t]++")  # of a step
_LINK = search_pattern(r"(?:https?://|www\.)\S+")
_GREETING = r"(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day))"
_SALUTATION = match_pattern(
    rf"\s*+{_GREETING}(?:\s++[^\s,.!?:]++){{0,3}}+\s*+[,!:.]?\s*+", re.IGNORECASE
)
_GREETED = search_pattern(rf"(?<!\s)\s*+{_GREETING}(?: there)?,?\s*+\0[,.!:]?\s++", re.IGNORECASE)
_CLOSING = match_pattern(
    r"\s*+(?:(?:best|kind|kindest|warm|warmest) (?:regards|wishes)|regards|best|sincerely|cheers|"
    r"many thanks|thanks|thank you|yours(?: \w++)?|all the best)[,.!]?\s*+",
    re.IGNORECASE,
)
_PEOPLE = frozenset(
    [
        "name",
        "firstname",
        "lastname",
        "fullname",
        "username",
        "vorname",
        "nachname",
        "first",
        "last",
        "full",
        "contact",
        "customer",
        "user",
        "agent",
        "assignee",
        "company",
        "team",
        "ticket",
        "requester",
    ]
)
_LETTERS = search_pattern(r"[a-z]+")
_CAMEL_CASE = search_pattern(r"([a-z])([A-Z])")
_LOGIC = frozenset(
    ["if", "else", "elsif", "elif", "endif", "unless", "each", "for", "endfor", "with"]
)
_SIGNATURE_LINES = 5  # at the end, among which the closing is
_SIGNATURE_WORDS = 5


def plain(text: str) -> str:
    """Return what a canned reply says, without its frame.

    That is salutation and signature (in English), placeholders, markup and links.

    The words of a placeholder that names a thing stay ("order number" of {{order.number}}). A text
    that is nothing but frame comes back as it is.
    """
    shown = text
    if "</" in text:
        shown = html.unescape(_without_tags(_BREAK.sub("\n", text)))
    elif _LONE_TAG.search(text):  # without closing tags: what else is in <> may be a placeholder
        shown = html.unescape(_LONE_TAG.sub(" ", _BREAK.sub("\n", text)))
    linked = _LINK.sub("", _MARKDOWN_LINK.sub(r"\1", shown))
    marked = _MARKDOWN.sub("", PLACEHOLDER.sub(_placeholder_words, linked))
    if marked == text and "\n" not in text:
        return text
    marked = _NUMBER.sub("", marked) if "\n" in marked.strip() else marked
    marked = _GREETED.sub("", marked, count=1).replace("\0", " ")
    lines = [line for line in marked.splitlines() if line.strip(" ,.!:")]
    if lines and _SALUTATION.fullmatch(lines[0]):
        del lines[0]
    for number in range(max(0, len(lines) - _SIGNATURE_LINES), len(lines)):
        if _CLOSING.fullmatch(lines[number]) and all(map(_is_signature, lines[number + 1 :])):
            del lines[number:]
            break
    body = "\n".join(" ".join(line.split()) for line in lines)
    return body or text


def _without_tags(text: str) -> str:
    """Return a text without tags, comments, and what stands in <script> and <style>.

    A comment or script that does not end is text; its end is looked for once.
    """
    pieces = []
    position = 0
    without_end: set[str] = set()
    while match := _TAG.search(text, position):
        pieces.append(text[position : match.start()])
        position = match.end()
        name = match[1]
        end = f"</{name}>" if name else "-->" if match[0] == "<!--" else ""
        if not end:
            continue
        closing = -1 if end in without_end else text.find(end, position)
        if closing >= 0:
            position = closing + len(end)
            continue
        without_end.add(end)
        tag = _OPEN_TAG.match(text, match.start())
        if tag is None:
            pieces.append(match[0])
        else:
            position = tag.end()
    return "".join([*pieces, text[position:]])


def _is_signature(line: str) -> bool:
    """Return whether a line below a closing may be a name: a few words that are not a sentence."""
    return len(line.split()) <= _SIGNATURE_WORDS and not line.rstrip().endswith((".", "!", "?"))


def _placeholder_words(match: re.Match[str]) -> str:
    """Return the words of a placeholder that names a thing, else a mark."""
    if _DIRECTIVE_START.match(match.group()):
        return "\0"
    if match.group().startswith("["):
        inner = match.group().strip("[]")
        return "\0" if _PEOPLE.intersection(inner.lower().split()) else inner
    words = _LETTERS.findall(_CAMEL_CASE.sub(r"\1 \2", match.group()).lower())
    if not words or _LOGIC.intersection(words) or _PEOPLE.intersection(words):
        return "\0"
    return " ".join(words)


_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_FORMS = {
    "mark": r"<[a-z_]+>|\{[A-Za-z_][\w .-]{0,40}\}",
    "link": r"(?:https?://|www\.)[^\s<>]+[^\s<>.,;:!?)]",
    "email": r"(?<![\w.+%-])[\w.+%-]++@[\w-]++(?:\.[\w-]++)++",
    "date": rf"\d{{4}}-\d\d-\d\d|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
    rf"|(?:{_DAY} (?:of )?(?:{_MONTHS})|(?:{_MONTHS}) {_DAY})\b(?:,? \d{{4}}\b)?"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    "time": r"\d{1,2}[:.]\d\d(?: ?(?:[ap]m\b|[ap]\.m\.))?(?!\d|[.:]\d)"
    r"|\d{1,2} ?(?:[ap]m\b|o'clock)",
    "amount": r"[$€£] ?\d[\d.,]{0,30}\d|[$€£] ?\d"
    r"|\d[\d.,]{0,30} ?(?:€|usd|eur|gbp|euros?|dollars?|pounds?)",
    "phone": r"(?:\+|\b00)\d(?:[ ()/-]{0,2}\d){6,13}|\b0\d(?:[ /-]?\d){8,10}\b",
    "code": r"(?<![^\W_])#?(?=[a-z\d])(?=[a-z\d-]{0,60}\d)(?=[\d-]{5}|[\d-]{0,60}[a-z])"
    r"[a-z\d]++(?:-[a-z\d]++)*\b",
    "number": r"\d++(?:[.,]\d++)*+",
    "word": r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W\d_]+)*",
}
_BEGINS = r"(?=[\w<{$€£+#.%-])"  # what begins no form is a sign at once
_TOKEN = search_pattern(
    rf"{_BEGINS}(?:{'|'.join(f'(?P<{kind}>{form})' for kind, form in _FORMS.items())})"
    r"|(?P<sign>\S)",
    re.IGNORECASE,
)
_PLAIN = frozenset(("word", "sign"))
_GREETINGS = frozenset(
    "hi hello dear hey hallo thanks mr mrs ms welcome sorry".split()  # noqa: SIM905
)
_NAMED_THINGS = frozenset(
    """order ticket reference booking tracking invoice case account room train table confirmation
    parcel shipment customer contract flight voucher coupon phone""".split()  # noqa: SIM905
)
_BETWEEN = frozenset(
    "number numbers no nr id code is was are the your # : .".split()  # noqa: SIM905
)
_ALIKE = 0.6  # share of its words that a message must have in common with another one
_MOST_WORDS = 4  # of a name
_VALUES = 3  # that differ, for words to be variable
_SHARE = 0.4  # of the like messages that have other words there
_COMPARED = 40  # messages
_TOKENS_BEFORE = 12  # a variable part, of which one says what it is


class Token(NamedTuple):
    """A word, a sign, or a part whose form is known."""

    kind: str
    text: str
    start: int

    @property
    def key(self) -> str:
        """Its word without case; of a known form the form."""
        if self.kind == "mark":
            return self.text.strip("<>{}")
        return self.text.casefold() if self.kind in _PLAIN else self.kind

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.start + len(self.text)


@dataclass(slots=True)
class _Slot:
    """Words of a message, and what other messages have in their place."""

    start: int
    end: int
    values: Counter[str]


def tokens_of(text: str) -> list[Token]:
    """Return the words, signs and known forms of a text, in order."""
    return [
        Token(match.lastgroup or "", match[0], match.start()) for match in _TOKEN.finditer(text)
    ]


def mask(text: str) -> str:
    """Return a text whose parts of a known form are the name of the form."""
    pieces = []
    end = 0
    for token in tokens_of(text):
        if token.kind not in _PLAIN:
            pieces += [text[end : token.start], token.key]
            end = token.end
    return "".join([*pieces, text[end:]])


def with_placeholders(text: str, others: Sequence[str]) -> str:
    """Return a text whose variable parts are placeholders; `others` are messages like it.

    A part of a known form is variable if an other message has another value there.
    """
    own = tokens_of(text)
    variable = {number for number, token in enumerate(own) if token.kind == "mark"}
    words: dict[tuple[int, int], _Slot] = {}
    compared = 0
    for other in others[:_COMPARED]:
        compared += _compare(own, tokens_of(other), variable, words)
    chosen = [_Slot(number, number + 1, Counter()) for number in variable]
    chosen += _variable_words(own, list(words.values()), compared)
    return _fill(text, own, chosen)


def _compare(
    own: Sequence[Token],
    other: Sequence[Token],
    variable: set[int],
    words: dict[tuple[int, int], _Slot],
) -> bool:
    """Return whether another message is like the own one.

    Then add the numbers of own forms in whose place it has another value, and count its `words` in
    the places of own ones.
    """
    matcher = align([t.key for t in own], [t.key for t in other])
    if matcher is None or matcher.ratio() < _ALIKE:
        return False
    for operation, start, end, first, last in matcher.get_opcodes():
        if operation == "equal":
            for number, token in zip(range(start, end), other[first:last], strict=True):
                if own[number].kind not in _PLAIN and token.text != own[number].text:
                    variable.add(number)
        elif operation == "replace" and max(end - start, last - first) <= _MOST_WORDS:
            value = " ".join(token.text for token in other[first:last])
            words.setdefault((start, end), _Slot(start, end, Counter())).values[value] += 1
    return True


def _variable_words(own: Sequence[Token], slots: list[_Slot], compared: int) -> list[_Slot]:
    """Return the words that are names: most values are capitalised, and many messages differ."""
    chosen: list[_Slot] = []
    for slot in sorted(slots, key=lambda slot: -slot.values.total()):
        span = own[slot.start : slot.end]
        values = [*slot.values, " ".join(token.text for token in span)]
        is_free = all(slot.end <= other.start or other.end <= slot.start for other in chosen)
        is_name = sum(value[:1].isupper() for value in values) > len(values) / 2
        starts = slot.start == 0 or own[slot.start - 1].text in ".!?"
        if (
            is_free
            and is_name
            and not starts
            and len(slot.values) >= _VALUES - 1
            and slot.values.total() >= _SHARE * compared
            and all(token.kind == "word" for token in span)
        ):
            chosen.append(slot)
    return chosen


def _fill(text: str, own: Sequence[Token], slots: Sequence[_Slot]) -> str:
    """Return a text with a named placeholder in place of each slot; equal names are numbered."""
    pieces = []
    names: Counter[str] = Counter()
    end = 0
    for slot in sorted(slots, key=lambda slot: slot.start):
        name = _name(own, slot)
        names[name] += 1
        number = f"_{names[name]}" if names[name] > 1 else ""
        pieces += [text[end : own[slot.start].start], f"{{{name}{number}}}"]
        end = own[slot.end - 1].end
    return "".join([*pieces, text[end:]])


def _name(own: Sequence[Token], slot: _Slot) -> str:
    """Return what a variable part is: by its form, or by the words before it."""
    token = own[slot.start]
    before = [t.key for t in own[max(0, slot.start - _TOKENS_BEFORE) : slot.start]]
    if token.kind in ("code", "number"):
        thing = next((word for word in reversed(before) if word not in _BETWEEN), "")
        return thing if thing in _NAMED_THINGS else token.kind
    if token.kind != "word":
        return token.key
    greeted = [word for word in before if word.isalpha()][-1:]
    return "name" if _GREETINGS.intersection(greeted) else "value"


_END = search_pattern(r"(?<![.!?,:;])[.!?,:;]++(?:\s++|\Z)|\n\s*+")
_SIGNS_FIRST = match_pattern(r"[.!?,:;]{2,}+(?:\s++|\Z)")
_SIGN = search_pattern(r"\W+")
_LENGTHS = (1, 2)  # pieces of a frame
_NEIGHBOURS = 10  # different words that follow, or precede, a frame
_MOST_COMMON = 0.3  # share of the most common of them, at most
_ROUNDS = 3  # frames within each other


class Frames:
    """The frames of a collection of messages."""

    def __init__(self, texts: Iterable[str]) -> None:
        openings: defaultdict[str, Counter[str]] = defaultdict(Counter)
        closings: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            keys = [key for _, key in pieces(text)]
            for count in _LENGTHS:
                if len(keys) > count:
                    openings[_joined(keys[:count])][_word(keys[count:], 0)] += 1
                    closings[_joined(keys[-count:])][_word(keys[:-count], -1)] += 1
        self._openings = frozenset(filter(None, map(_frame, openings.items())))
        self._closings = frozenset(filter(None, map(_frame, closings.items())))

    def remove(self, text: str) -> str:
        """Return a message without frames; one that is nothing else as it is."""
        own = pieces(text)
        for _ in range(_ROUNDS):
            for count in reversed(_LENGTHS):
                if len(own) > count and _joined([key for _, key in own[:count]]) in self._openings:
                    own = own[count:]
                if len(own) > count and _joined([key for _, key in own[-count:]]) in self._closings:
                    own = own[:-count]
        return "".join(piece for piece, _ in own).strip()


def pieces(text: str) -> list[tuple[str, str]]:
    """Return the clauses of a message, each with a key; a piece without a letter has its signs."""
    masked = ((piece, text_key(mask(piece)) or piece) for piece in _clauses(text.strip()))
    return [(piece, key if _SIGN.sub("", key) else piece.strip()) for piece, key in masked]


def _clauses(text: str) -> Iterator[str]:
    """Yield the clauses of a text, with the signs and the white space at their ends."""
    start = 0
    while start < len(text):
        end = _SIGNS_FIRST.match(text, start) or _END.search(text, start + 1)
        stop = end.end() if end else len(text)
        yield text[start:stop]
        start = stop


def _joined(keys: Sequence[str]) -> str:
    return " / ".join(keys)


def _word(keys: Sequence[str], at: int) -> str:
    """Return the first or the last word of pieces."""
    words = list(itertools.chain.from_iterable(key.split() for key in keys))
    return words[at] if words else ""


def _frame(item: tuple[str, Counter[str]]) -> str:
    """Return a key if it is that of a frame, else nothing."""
    key, neighbours = item
    most = max(neighbours.values())
    is_frame = len(neighbours) >= _NEIGHBOURS and most <= _MOST_COMMON * neighbours.total()
    return key if is_frame else ""
