"""The text of a mail, out of its parts."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Any

from rejoinder.html_text import text_of_html


def body_of(mail: EmailMessage) -> str:
    """Return the text of a mail, of HTML without tags and with marks before quoted lines."""
    return "\n\n".join(text.strip("\r\n") for text in _texts(mail))


def _texts(part: EmailMessage) -> list[str]:
    """Return the texts of a part that are not blank, without attachments.

    Of alternatives plain text is read, or HTML if that is blank.
    """
    if part.is_attachment():
        return []
    kind = part.get_content_type()
    if kind in ("text/plain", "text/html"):
        text = _text(part, is_html=kind == "text/html")
        return [text] if _has_content(text) else []
    if part.get_content_maintype() != "multipart" or not part.is_multipart():
        return []
    inner: Any = part.get_payload()
    if kind == "multipart/alternative":
        inner = sorted(inner, key=lambda each: each.get_content_type() != "text/plain")
    if kind in ("multipart/alternative", "multipart/related"):
        return next(filter(None, map(_texts, inner)), [])
    # Programs show files in the text, too; the first part is the text whatever its name.
    unnamed = [each for each in inner[1:] if not each.get_filename()]
    return [text for each in (*inner[:1], *unnamed) for text in _texts(each)]


def _text(part: EmailMessage, *, is_html: bool) -> str:
    try:
        text = str(part.get_content())
    except (LookupError, UnicodeError):  # an encoding that nobody knows
        payload: Any = part.get_payload(decode=True)
        text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    return text_of_html(text, quote_mark="> ") if is_html else text


def _has_content(text: str) -> bool:
    return any(char.isprintable() and not char.isspace() for char in text)
