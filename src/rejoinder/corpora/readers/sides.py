"""Words that say who wrote a message: an agent, a customer, a bot or the system."""

from __future__ import annotations

from typing import Literal, TypeAlias

from rejoinder.corpora.forms.columns import name_keys
from rejoinder.corpora.readers.flags import NO, YES, word_of
from rejoinder.patterns import search_pattern

WrittenBy: TypeAlias = Literal["agent", "customer", "bot", "system"]

OF_BOTS = "messages of bots beside agents"  # a key of `Reading.dropped`
UNCLEAR = "values that say not who answers:"  # in a note
BOTS = frozenset("bot chatbot assistant gpt chatgpt model bing bard".split())  # noqa: SIM905
AGENTS = frozenset(
    """agent agents support operator staff admin administrator advisor adviser representative
    service helpdesk consultant teammate supervisor manager employee clerk seller
    mitarbeiter mitarbeiterin mitarbeitende berater beraterin betreuer betreuerin sachbearbeiter
    sachbearbeiterin kundenservice kundendienst kundenbetreuer
    conseiller conseillère employé employée agente asesor asesora empleado empleada operador
    operadora atendente funcionário operatore operatrice medewerker""".split()  # noqa: SIM905
)
CUSTOMERS = frozenset(
    """customer customers client clients user users enduser human visitor guest requester buyer
    shopper consumer contact caller member patient
    kunde kundin kunden nutzer nutzerin benutzer anfragende
    cliente utilisateur usuario usuaria usuário utente klant gebruiker""".split()  # noqa: SIM905
)
SYSTEM = frozenset(
    """system developer tool function automation automated automatic auto autoresponder trigger
    workflow event activity notification""".split()  # noqa: SIM905
)
_OUT = frozenset("outbound outgoing out sent team".split())  # noqa: SIM905
_IN = frozenset("inbound incoming in received".split())  # noqa: SIM905
_SIDES: tuple[tuple[frozenset[str], WrittenBy], ...] = (  # the first with a word of a value decides
    (AGENTS | _OUT, "agent"),
    (SYSTEM, "system"),
    (BOTS, "bot"),
    (CUSTOMERS | _IN, "customer"),
)
_TO = frozenset("to an zu para > →".split())  # noqa: SIM905
_ROLES = AGENTS | CUSTOMERS | BOTS | SYSTEM
_LABELS = search_pattern(r"[^\W_]+")
_WORDS = search_pattern(r"[^\W\d_]+|[>→]")


def side_of(value: object, *, customers: bool = False) -> WrittenBy | None:
    """Return who wrote a message by a value such as "Agent", "outbound" or "customer_to_agent".

    Yes is an agent's, or a customer's in a column that tells `customers`. None: nothing is known.
    """
    word = word_of(value)
    if word in YES | NO:
        return "customer" if (word in YES) is customers else "agent"
    words = _WORDS.findall(name_keys(value)[1])
    end = next((index for index, word in enumerate(words) if index and word in _TO), len(words))
    return next((side for known, side in _SIDES if not known.isdisjoint(words[:end])), None)


def side_of_label(label: str) -> WrittenBy | None:
    """Return who speaks by the label of a line: "Visitor 7", "Anna (Support)", "Agent Lisa".

    What stands beside the role is a name or a number: "User management" is a topic. Yes, no and
    numbers, by which a column may tell sides, are none.
    """
    outer, _, inner = label.partition("(")
    if inner and _is_role(inner):
        return side_of(inner)
    return side_of(outer) if _is_role(outer) else None


def _is_role(text: str) -> bool:
    """Return whether words are a role, with names or numbers beside it."""
    words = _LABELS.findall(text)
    others = [word for word in words if word.casefold() not in _ROLES]
    is_named = all(word[0].isupper() or not word[0].isalpha() for word in others)
    return len(others) < len(words) and is_named and word_of(text) not in YES | NO


def roles_of_label(label: str) -> set[str]:
    """Return the words of a label that name roles: "agent" of "Agent Lisa"."""
    return {word for word in map(str.casefold, _LABELS.findall(label)) if word in _ROLES}
