"""Words for the halves of a day, behind or before a clock of twelve hours, in many languages."""

# ruff: noqa: RUF001 (words of other scripts)
from __future__ import annotations

import re

# As phones write them, from Unicode's locale data; "a. m." and its like are matched by a pattern.
_MORNING = (
    "上午", "凌晨", "早上", "오전", "午前", "ص", "пр.об.", "π.μ.", "ق.ظ.", "ق.ظ", "PG", "ÖÖ", "дп",
    "SA", "de.", "dop.", "ap.", "fm", "f.m.", "f.h.", "priešpiet", "priekšp.", "пре подне",
    "претпл.", "לפנה״צ", 'לפנה"צ', "पूर्वाह्न", "முற்பகல்", "ก่อนเที่ยง", "TO", "ү.ө.", "နံနက်", "ກ່ອນທ່ຽງ",
    "ጥዋት", "e paradites", "p.d.", "таңкы", "r.n.", "yb", "da manhã",
)  # fmt: skip
_AFTERNOON = (
    "下午", "中午", "晚上", "오후", "午後", "م", "сл.об.", "μ.μ.", "ب.ظ.", "ب.ظ", "PTG", "ÖS", "пп",
    "CH", "du.", "odp.", "pop.", "ip.", "em", "e.m.", "e.h.", "popiet", "pēcp.", "по подне",
    "попл.", "אחה״צ", 'אחה"צ', "अपराह्न", "பிற்பகல்", "หลังเที่ยง", "TK", "ү.х.", "ညနေ", "ຫຼັງທ່ຽງ",
    "ከሰዓት", "e pasdites", "m.d.", "түштөн кийинки", "i.n.", "yh", "da tarde", "da noite",
)  # fmt: skip
_LATIN = r"[AaPp]\.?\s?[Mm]\.?"
_LONGEST_FIRST = sorted((*_MORNING, *_AFTERNOON), key=len, reverse=True)
HALF = rf"{_LATIN}(?!\w)|{'|'.join(map(re.escape, _LONGEST_FIRST))}"
"""An expression for a half of the day."""
_AFTERNOONS = frozenset(word.casefold() for word in _AFTERNOON)


def half_of_day(word: str) -> str:
    """Return "a" or "p" for a word that `HALF` matches; nothing for none."""
    folded = word.casefold()
    if not folded:
        return ""
    is_pm = folded.startswith("p") and "".join(folded.replace(".", " ").split()) == "pm"
    return "p" if is_pm or folded in _AFTERNOONS else "a"
