"""Words of a message as rules of polarity read them: contractions are written out."""

from __future__ import annotations

from rejoinder.patterns import search_pattern
from rejoinder.text.signs.inflections import read_table
from rejoinder.text.signs.lexicon import SKIPPED

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
    (search_pattern(r"\b(?:after all|in the end)\b"), "now"),
    (search_pattern(r"\bbe (need|want)ing\b"), r"\1"),
    (search_pattern(r"\b(?:am|are|is|'m|'re|'s) (?:really )?not interested in\b"), " do not want"),
    (search_pattern(r"\b(?:rather than|instead of)\b"), "without"),
    (search_pattern(r"(?:'d| would) like\b"), " want"),
    (search_pattern(r"\b(?:no[ -]one|none of (?:them|us|you))\b"), "nobody"),
    (search_pattern(r"\bnone of (?=(?:the|my|our|your|his|her|their|these|those)\b)"), "no "),
    (search_pattern(r"\b(?:went|gone) through\b"), "succeeded"),
    (search_pattern(r"\b(?:go|goes) through\b"), "succeed"),
    (search_pattern(r"\bgoing through\b"), "succeeding"),
    (search_pattern(r"\bdid (?:really |actually |finally )?get\b"), "got"),
    (search_pattern(r"\bset(?:ting)?[ -]?up\b"), "enable"),
    (search_pattern(r"\bbe (?:there|here)\b"), "come"),
    (search_pattern(r"\bbe (?:at|in)(?= (?:the|my|our|your|his|her|this|that)\b)"), "come to"),
    (
        search_pattern(
            r"\bmake it(?= (?:to|on|at|for|today|tomorrow|this|next|then)\b|[ .,!?]*\Z)"
        ),
        "come",
    ),
    (search_pattern(r"\b(?:turned|shown|showed) up\b(?! (?:the|my|our)\b)"), "arrived"),
    (search_pattern(r"\b(?:turn|show)(s|ing)? up\b(?! (?:the|my|our)\b)"), r"arrive\1"),
    (search_pattern(r"\bnot (?:only|just)\b"), ""),
    (
        search_pattern(
            r"\b(?:do not (?:really )?(?:think|believe|suppose)|doubt)(?: that| if)? (?:i|we)"
            r"(?= (?:want|need|wish)\b)"
        ),
        "do not",
    ),
    (
        search_pattern(
            r"\bdo not (?:really )?(?:think|believe|suppose)(?: that)?"
            r" (i|we) (will|should|can|could)\b"
        ),
        r", \1 \2 not",
    ),
)
_WISHING = frozenset(["want", "need", "wish"])
_LINKING_WORDS = """
if that what which when where how why who whether and but or as all because thing things everything
anything something only until so than
"""
_LINKING = frozenset(_LINKING_WORDS.split())  # before "i want", which goes on with their clause
_SHORT = {"m": "am", "re": "are", "ve": "have", "ll": "will", "d": "would"}  # behind an apostrophe
_VERBS = {"ai": "is", "ca": "can", "wo": "will"}  # before "n't"
_CONTRACTED = read_table("""
im: i am
ive: i have
thats: that is
theres there's: there is
cannot: can not
login: log in
logout: log out
never: not
u: you
""")


def tokenize(text: str) -> list[str]:
    """Return the words and the punctuation of a text; contractions are written out."""
    plain = _APOSTROPHE.sub("'", text.lower())
    plain = _NOT.sub(lambda match: f"{_VERBS.get(match[1], match[1])} not", plain)
    plain = _PREFIX.sub(r"\1", plain)
    for phrase, read in _PHRASES:
        plain = phrase.sub(read, plain)
    return _with_comma([word for token in _TOKEN.findall(plain) for word in _words(token)])


def _with_comma(tokens: list[str]) -> list[str]:
    """Return tokens with the comma that dictation leaves out before "i want"."""
    for position in range(len(tokens) - 2, 0, -1):
        is_wish = tokens[position] == "i" and tokens[position + 1] in _WISHING
        if is_wish and tokens[position - 1].isalpha() and tokens[position - 1] not in _LINKING:
            tokens.insert(position, ",")
    return tokens


def _words(token: str) -> list[str]:
    """Return the words of a contraction: "i'm"; of a genitive the noun alone."""
    if token in _CONTRACTED:
        return _CONTRACTED[token].split()
    head, _, short = token.partition("'")
    if short == "s":
        return [head, "is"] if head in SKIPPED else [head]
    return [head, _SHORT[short]] if short in _SHORT else [token]
