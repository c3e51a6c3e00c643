"""Questions of customers and of agents, by their words: "How do I pay?", "How can I help you?"."""

from __future__ import annotations

import functools

from rejoinder.patterns import search_pattern

SHORT = 400  # letters of a line whose reading is kept: it is looked at ten times
KEPT = 4096  # lines
_OF_AGENTS = search_pattern(
    r"(?i)\b(?:help you|do for you|assist you|anything else|how are you|would you like"
    r"|which \w+ (?:do|are|did) you|(?:did|have) you|is (?:this|it|that) still|(?:does|did) that"
    r"|are you (?:able|still|sure|using|getting|seeing)"
    r"|do you (?:see|get|know|remember|want|use|mean|still)|how (?:can|may) i"
    r"|can i (?:help|get your)"
    r"|(?:could|can|would|will) you (?:please )?(?:tell|send|give|confirm|provide|describe|share"
    r"|check|let|try|hold|wait)|may i (?:have|ask|know)|your (?:order|account|e-?mail|phone|name"
    r"|address|number|date|card|invoice|customer|reference|booking)"
    r"|ihnen (?:noch |sonst |weiter)?(?:helfen|weiterhelfen|behilflich|sagen)|für sie tun"
    r"|(?:haben|können|könnten|würden|sind|möchten) sie"
    r" (?:mir|uns|schon|bereits|noch|das|den|die|es)"
    r"|ihre?[nmrs]? (?:bestell|kundennummer|rechnung|auftrag|konto|telefon|handy|e-?mail|adress"
    r"|anschrift|name|postleit|geburts|vertrags|passwor|browser|gerät)\w*"
    r"|vous aider|pouvez-vous (?:me|nous)|avez-vous (?:déjà|essayé)"
    r"|(?:votre|vos) (?:num[ée]ro|commande|nom|adresse|e-?mail|compte|t[ée]l[ée]phone|facture)s?"
    r"|usted|ayudar\w*|aiutar\w*|ajudar\w*)\b"
)
_OF_CUSTOMERS = search_pattern(
    r"(?i)\b(?:i|my|me|we|our|us)\b|^(?:do|are|can|will) you\b"
    r"|^(?:what|where|when|how) (?:are|do) you|^(?:is|are) there\b|^how (?:long|much|many|often)\b"
    r"|\b(?:ich|mein\w{0,2}|mir|mich|je|mon|mes|puedo|mis?|posso|minha|meu|mi[ao]|ik|mijn)\b|\bj['\u2019]"
    r"|^(?:liefern|versenden|verschicken|akzeptieren|nehmen|bieten|verkaufen) sie\b|^gibt es\b"
    r"|^(?:livrez|acceptez|proposez|vendez|expédiez)-vous\b|^y a-t-il\b|^was kostet\b|^wie lange\b"
)


def is_of_agent(question: str) -> bool:
    """Return whether a question is in an agent's words."""
    return _is_known_agents(question) if len(question) <= SHORT else _is_of_agent(question)


def is_of_customer(question: str) -> bool:
    """Return whether a question is in a customer's words."""
    return _OF_CUSTOMERS.search(question) is not None


def _is_of_agent(question: str) -> bool:
    return _OF_AGENTS.search(question) is not None


_is_known_agents = functools.lru_cache(maxsize=KEPT)(_is_of_agent)
