"""The state of an entry of a tool: in use or not, by itself or part of another.

It may be switched off, a draft, or not approved, or it may answer in one step of a dialog only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import fold
from rejoinder.corpora.readers.flags import NO, YES

CONDITIONAL = "replies that are bound to a condition, an entity or an earlier step"
_INACTIVE = "inactive or unapproved entries"
_IN_USE = frozenset(
    """active is_active enabled is_enabled isenabled published is_published approved is_approved
    aktiv actif activo""".split()  # noqa: SIM905
)
_NOT_IN_USE = frozenset(
    """inactive is_inactive disabled is_disabled draft is_draft archived is_archived deleted
    is_deleted hidden""".split()  # noqa: SIM905
)
_STATES = frozenset(("status", "state", "review_status", "approval_status", "publish_status"))
_BAD_STATES = frozenset(
    """inactive disabled draft archived deleted hidden pending rejected unpublished unapproved
    not_approved in_review review retired expired deactivated off""".split()  # noqa: SIM905
)


def why_unused(choice: Choice) -> str:
    """Return why entries that are not in use are left out: a key of `Reading.dropped`."""
    return _INACTIVE + choice.advice(" (--set inactive=keep reads them)")


def is_inactive(record: Mapping[str, Any]) -> bool:
    """Return whether a field of a record says that it is not in use."""
    for name, value in record.items():
        if not isinstance(value, str | bool | int | float):
            continue
        key = fold(name)
        word = fold(value)
        if (
            (key in _IN_USE and word in NO)
            or (key in _NOT_IN_USE and word in YES)
            or (key in _STATES and word in _BAD_STATES)
        ):
            return True
    return False
