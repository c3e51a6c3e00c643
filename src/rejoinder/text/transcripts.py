"""A chat that was pasted into a message, of which the customer's lines are read."""

from __future__ import annotations

from rejoinder.patterns import MatchPattern, match_pattern

_AGENT = "agent|support|operator|(?:chat|ro)?bot|assistant|adviser|advisor|representative|staff"
_CUSTOMER = "customer|visitor|client|user|guest|me|patient|member"


def _speaking(roles: str) -> MatchPattern[str]:
    """Return a pattern of what stands before a line: "[10:01] Lisa (Support):", "Agent Lisa:"."""
    stamp = r"(?:\[[^\[\]\n]{1,30}\]|\(?\d\d?[:.]\d\d[^\s\w]{0,2}) "
    named = rf"[^\s:()\n]{{1,20}}(?: [^\s:()\n]{{1,20}})? \((?:{roles})\)"
    return match_pattern(rf"(?i)(?:{stamp})?(?:(?:{roles})(?: [^\s:\n]{{1,20}})?|{named}): ?")


_AGENTS = _speaking(_AGENT)
_CUSTOMERS = _speaking(_CUSTOMER)


def customer_lines(text: str) -> str:
    r"""Return what the customer says in a pasted chat of both sides; another text as it is.

    >>> customer_lines("Agent: Do you want to cancel it?\nVisitor: No, I lost it")
    'No, I lost it'
    """
    lines = [line.strip() for line in text.split("\n")]
    spoken = [(_AGENTS.match(line), _CUSTOMERS.match(line)) for line in lines]
    if not any(agent for agent, _ in spoken) or not any(customer for _, customer in spoken):
        return text
    kept: list[str] = []
    is_customer = True  # what stands above the chat
    for line, (agent, customer) in zip(lines, spoken, strict=True):
        if agent or customer:
            is_customer = customer is not None
        if is_customer:
            kept.append(line[customer.end() :] if customer else line)
    return "\n".join(kept)
