"""Questions of customers and of agents, by their words: "How do I pay?", "How can I help you?"."""

from __future__ import annotations

from rejoinder.patterns import search_pattern

_OF_AGENTS = search_pattern(
    r"(?i)\b(?:help you|do for you|assist you|anything else|how are you|would you like"
    r"|which \w+ (?:do|are|did) you|(?:did|have) you|is (?:this|it|that) still|(?:does|did) that"
    r"|are you (?:able|still|sure|using|getting|seeing)"
    r"|do you (?:see|get|know|remember|want|use|mean|still)|how (?:can|may) i"
    r"|can i (?:help|get your)"
    r"|(?:could|can|would|will) you (?:please )?(?:tell|send|give|confirm|provide|describe|share"
    r"|check|let|try|hold|wait)|may i (?:have|ask|know)|your (?:order|account|e-?mail|phone|name"
    r"|address|number|date|card|invoice|customer|reference|booking)"
    r"|ihnen|ihre[nmrs]?|für sie|vous aider|votre|vos|usted|ayudar\w*|aiutar\w*|ajudar\w*)\b"
)
_OF_CUSTOMERS = search_pattern(
    r"(?i)\b(?:i|my|me|we|our|us)\b|^(?:do|are|can|will) you\b"
    r"|^(?:what|where|when|how) (?:are|do) you|^(?:is|are) there\b|^how (?:long|much|many|often)\b"
)


def is_of_agent(question: str) -> bool:
    """Return whether a question is in an agent's words."""
    return _OF_AGENTS.search(question) is not None


def is_of_customer(question: str) -> bool:
    """Return whether a question is in a customer's words."""
    return _OF_CUSTOMERS.search(question) is not None
