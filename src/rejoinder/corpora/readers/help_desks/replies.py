"""Prepared replies and articles of help desks, as their APIs give them.

Macros of Zendesk, canned responses of Freshdesk and Chatwoot, saved replies of Intercom, and the
articles of help centres. A page of an API's answer is read as well as all of its entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import json_values, texts_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.help_desks.fields import first_text
from rejoinder.corpora.readers.standing import is_inactive, why_unused
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.html_text import text_of_html
from rejoinder.json_parsing import parse_json

ACTIONS = ("actions_json", "actions")  # columns of macros in a table
_TEXT = ("body_text", "content", "description_text")
_HTML = ("body", "description")
_TITLE = ("title", "name", "short_code")
_KEPT = ("id", "tags", "label_names", "category", "category_id", "section_id", "folder_id",
         "html_url", "url", "locale")  # fmt: skip
_REPLY_LISTS = ("macros", "articles", "data", "payload", "responses", "canned_responses", "results")
_PATHS = ("item", *(f"{name}.item" for name in _REPLY_LISTS), "")


def read_entries(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each entry that has a text and is neither a draft nor inactive."""
    path = _path(sample, "title", "name", "short_code")
    values = json_values(sample.source, {path}, sample.encoding, reading)
    for number, (_, entry) in enumerate(values, 1):
        if not isinstance(entry, dict):
            raise InputError(f"{sample.source}: entry {number} is not an object with a text")
        is_draft = entry.get("draft") is True or entry.get("state") == "draft"
        if not choice.inactive and (is_draft or entry.get("status") == 1):
            reading.drop("drafts")
            continue
        if not choice.inactive and is_inactive(entry):
            reading.drop(why_unused(choice))
            continue
        text = _macro_text(entry["actions"]) if "actions" in entry else _entry_text(entry)
        if not text:
            reading.drop("entries without a text")
            continue
        title = next((str(entry[key]).strip() for key in _TITLE if entry.get(key)), "")
        examples = ((title,),) if title.endswith("?") else ()
        payload = {key: entry[key] for key in _KEPT if entry.get(key) not in (None, "", [])}
        yield Candidate(text, payload, title, examples)


def _entry_text(entry: dict[str, Any]) -> str:
    text = first_text(entry, _TEXT, with_links=True)
    bodies = texts_of(entry.get(key) for key in _HTML)
    return text or next((text_of_html(body, with_links=True) for body in bodies), "")


def macro_json(text: str) -> str:
    """Return the comment of a macro whose actions are a cell of JSON; other texts as they are."""
    if not text.lstrip().startswith("["):
        return text
    try:
        actions = parse_json(text)
    except ValueError:
        return text
    is_macro = isinstance(actions, list) and all(
        isinstance(action, dict) and {"field", "value"} <= action.keys() for action in actions
    )
    return _macro_text(actions) if is_macro and actions else text


def _macro_text(actions: Any) -> str:
    """Return the public comment that a macro writes."""
    comments = {}
    for action in actions if isinstance(actions, list) else ():
        field = action.get("field") if isinstance(action, dict) else None
        value = action.get("value") if isinstance(action, dict) else None
        if field in ("comment_value", "comment_value_html"):
            text = value[-1] if isinstance(value, list) and value else value  # ["channel:all", ...]
            comments[field] = text if isinstance(text, str) else ""
        elif field == "comment_mode_is_public" and value in ("false", False):
            return ""
    return first_text(comments, ("comment_value", "comment_value_html"), with_links=True)


def _path(sample: Sample, *titles: str) -> str:
    """Return the path of the entries."""
    for path in _PATHS:
        base = f"{path}.".removeprefix(".")
        if any(f"{base}{title}" in sample.keys for title in titles):
            return path
    return "item"


def _has_reply_fields(sample: Sample, lists: Sequence[str], *keys: str) -> bool:
    bases = ("", "item.", *(f"{name}.item." for name in lists))
    return any(all(f"{base}{key}" in sample.keys for key in keys) for base in bases)


REPLY_FORMS = [
    Form(
        name="zendesk-macros",
        title="Zendesk macros",
        holds="replies",
        export="Zendesk API: GET /api/v2/macros.json?active=true (Admin Center exports no texts)",
        matches=lambda sample: _has_reply_fields(sample, ["macros"], "title", "actions.item.field"),
        read=read_entries,
    ),
    Form(
        name="freshdesk-canned",
        title="Freshdesk canned responses",
        holds="replies",
        export="Freshdesk API: GET /api/v2/canned_response_folders/ID/responses, one file a folder",
        matches=lambda sample: _has_reply_fields(
            sample, _REPLY_LISTS, "title", "content", "content_html"
        ),
        read=read_entries,
    ),
    Form(
        name="chatwoot-canned",
        title="Chatwoot canned responses",
        holds="replies",
        export="Chatwoot API: GET /api/v1/accounts/ID/canned_responses (or a table of them)",
        matches=lambda sample: _has_reply_fields(
            sample, ["payload", "data"], "short_code", "content"
        ),
        read=read_entries,
    ),
    Form(
        name="intercom-macros",
        title="Intercom saved replies (macros)",
        holds="replies",
        export="Intercom API: GET /macros, all pages",
        matches=lambda sample: _has_reply_fields(sample, ["data"], "name", "body", "body_text"),
        read=read_entries,
    ),
    Form(
        name="help-center",
        title="help-centre articles (Zendesk, Intercom, Freshdesk)",
        holds="replies",
        export="Zendesk: GET /api/v2/help_center/articles.json; Intercom: GET /articles; "
        "Freshdesk: GET /api/v2/solutions/folders/ID/articles",
        matches=lambda sample: (
            _has_reply_fields(sample, ["articles"], "title", "body", "draft")
            or _has_reply_fields(sample, ["data", "articles"], "title", "body", "state")
            or _has_reply_fields(
                sample, ["articles"], "title", "description", "description_text", "folder_id"
            )
            or {"articles.item.title", "articles.item.body"} <= sample.keys
        ),
        read=read_entries,
    ),
]
