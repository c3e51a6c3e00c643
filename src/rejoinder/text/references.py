"""Messages that say little without what was said before: "what does that cost?"."""

from __future__ import annotations

from rejoinder.text.courtesy import has_content, words

_REFERRING = frozenset(["it", "that", "this", "they", "them", "those", "these", "ones"])
_ASKING_WORDS = "how why long much many often far soon big anything something somewhere"
_ASKING = frozenset(_ASKING_WORDS.split())
_LINKING = frozenset(["and", "also", "or", "but"])


def refers_back(text: str) -> bool:
    """Return whether a message of at most one word of content refers to what was said before.

    It has a pronoun that stands for it, or goes on with it: "and on Sundays?".
    """
    tokens = words(text)
    is_linked = tokens[:1] != () and tokens[0] in _LINKING
    if not is_linked and _REFERRING.isdisjoint(tokens):
        return False
    content = [word for word in tokens if has_content(word) and word not in _REFERRING | _ASKING]
    return len(content) <= 1
