"""The replies of a search as lines, and why there are none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_SILENCES = {
    "language": "no reply: the message is not English; --minimum-score N searches all the same",
    "denied": (
        "no reply: what is nearest answers the opposite, or a problem that the message says is "
        "settled; --why --minimum-score -9 -k 100 lists it, lowest of all"
    ),
}


def show_answer(
    answer: Mapping[str, Any],
    lowest: float | None,
    minimum_confidence: float | None,
    where: list[str] | None,
    none_pass: str | None = None,
) -> str:
    """Return the replies and the confidence of the best as lines, or why there are none.

    `none_pass` says that no reply of the index passes `where`.
    """
    if none_pass is not None:
        return none_pass
    blocks = []
    for candidate in answer["replies"]:
        text = candidate["text"].replace("\n", "\n" + " " * 16)
        blocks.append(f"{candidate['score']:6.3f}  {'#' + str(candidate['position']):<8}{text}")
        if candidate["payload"]:
            blocks.append(" " * 16 + json.dumps(candidate["payload"], ensure_ascii=False))
        blocks += _reasons(candidate)
    p = answer.get("confidence")
    if p is not None and minimum_confidence is not None and p < minimum_confidence:
        least = f"{minimum_confidence:g}"
        return f"silent: the best reply is right with probability {p:.3f}, below {least}"
    if not blocks and (reason := answer.get("reason")):
        return _SILENCES[reason]
    if not blocks:
        conditions = [] if lowest is None else [f"scores {lowest:g} or more"]
        conditions += ["passes --where"] if where else []
        if not conditions:
            return "the index is empty"
        advice = "" if lowest is None else "; --minimum-score N lowers the minimum"
        return f"no reply {' and '.join(conditions)}{advice}"
    if p is not None:
        blocks.append(f"the best is right with probability {p:.3f}")
    return "\n".join(blocks)


def _reasons(reply: Mapping[str, Any]) -> list[str]:
    """Return what is shown below a reply: which question it answers, and why it was found."""
    lines = ["answers the other question"] if reply.get("also") else []
    if why := reply.get("why"):
        like = " / ".join(why["like"]) if why["view"] != "text" else "its own text"
        lines.append(f"like: {like} {why['similarity']:.2f}")
        lines += [f"answers: {why['sentence']}"] if why.get("sentence") else []
        lines += [f"opposes: {why['opposes']}"] if why.get("opposes") else []
    return [" " * 16 + line for line in lines]
