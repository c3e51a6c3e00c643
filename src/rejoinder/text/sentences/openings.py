"""Openings of sentences that ask nothing: greetings, fillers, wishes, excuses, "can you tell me".

No comma needs to set it apart: "hi sorry to bother you where is my parcel".
"""

from __future__ import annotations

from rejoinder.patterns import match_pattern
from rejoinder.text.courtesy import GREETING

_INTERROGATIVE = r"(?:how|wh\w++|can|could|do|does|did|is|are|will|would|should|may)\b"
_EVERYBODY = (
    r"(?: (?:there|all|everyone|team|guys|folks|bot|mate)\b"
    r"(?! (?:is|are|was|were|can|has|have)\b))?+"
)
_GREETED = rf"(?:{GREETING}|hallo|yo|(?:morning|afternoon|evening)(?= (?:all|everyone|team)\b))"
_FILLER = (
    r"(?:btw|by the way|u[mh]++|hmm++|okay|ok|anyway|basically"
    r"|so(?! (?:far|called|long|many|much|that)\b))"
)
_WISH = (
    r"(?:hope (?:you are|you're|your|you|all is|everyone is)(?: doing)?"
    r" (?:all )?(?:well|fine|good|great|ok|okay))"
)
_EXCUSE = r"(?:sorry (?:to|for) (?:bother|disturb|troubl)\w*+(?: you)?(?: again)?)"
_ANNOUNCED = (  # a question that follows
    r"(?:quick (?:question|q)(?: (?:from my side|for you))?"
    r"|(?:what )?i (?:just )?(?:wanted|want|have) to ask(?=:)"
    r"|(?:just |i was )*+wondering(?=,))"
)
_ASKED = (
    r"(?:(?:please|pls|plz)(?= (?:how|wh\w++|can|could|is|are)\b)"
    r"|(?:(?:can|could|would) you (?:please |kindly )?(?:help me|tell me|let me know)"
    rf"|(?:i|we)(?:(?: would|'d) like| want| need)(?: also)? to know)(?=:| {_INTERROGATIVE}))"
)
_KISSES = r"x{1,4}(?= (?:how|wh\w++|can|could)\b)"
_OPENING = match_pattern(
    rf"(?i:(?:{_GREETED}|{_FILLER}|{_WISH}|{_KISSES}|{_EXCUSE}|{_ANNOUNCED}|{_ASKED})\b"
    rf"[,:]?+{_EVERYBODY}\s++)++"
)


def count_opening(sentence: str) -> int:
    """Return how many letters in front of a sentence only open it."""
    opening = _OPENING.match(sentence)
    return opening.end() if opening else 0
