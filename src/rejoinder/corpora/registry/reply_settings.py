"""Settings of a file of replies, as `--set` gives them."""

from __future__ import annotations

from collections.abc import Sequence

from rejoinder.corpora.forms.choice import Choice, parse_choice
from rejoinder.settings import documented, parse_setting, text_fields, validate


@documented
class ReplySettings:
    """Settings of a file of replies, as those of exported chats."""

    format: str = ""
    columns: str = ""
    inactive: str = ""


def parse_settings(settings: Sequence[str] | None) -> Choice:
    """Return the choices of `--set`: format, columns, inactive=keep."""
    texts = text_fields(ReplySettings)
    values = dict(parse_setting(text, "name=value", texts) for text in settings or ())
    chosen = validate(ReplySettings, values, "settings of replies")
    return parse_choice(chosen.format, chosen.columns, chosen.inactive)
