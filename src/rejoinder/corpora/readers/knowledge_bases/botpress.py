"""Botpress (version 12): the exported questions and answers, or the files of a bot's qna folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import json_values, texts_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.knowledge_bases.json_base import find_base
from rejoinder.corpora.readers.standing import why_unused
from rejoinder.corpora.schema import Candidate
from rejoinder.html_text import text_of_html

_BASES = ("qnas.item.", "item.", "")


def read_botpress(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each entry that answers with a text, in each of its languages."""
    base = find_base(sample, _BASES, "data.answers", "data.questions") or ""
    path = base.removesuffix(".")
    for _, entry in json_values(sample.source, {path}, sample.encoding, reading):
        data = entry.get("data") if isinstance(entry, dict) else None
        if not isinstance(data, dict):
            reading.drop("entries without an answer")
            continue
        if not choice.inactive and str(data.get("enabled")).lower() == "false":
            reading.drop(why_unused(choice))
            continue
        yield from _of_botpress(str(entry.get("id", "")), data, reading)


def _of_botpress(name: str, data: dict[str, Any], reading: Reading) -> Iterator[Candidate]:
    answers = _by_language(data.get("answers"))
    questions = _by_language(data.get("questions"))
    if not answers:
        reading.drop("entries without an answer")
    for language, (first, *others) in answers.items():
        payload: dict[str, Any] = {"id": name}
        if len(answers) > 1:
            payload["language"] = language
        if others:
            payload["variants"] = [text_of_html(text, with_links=True) for text in others]
        examples = tuple((text,) for text in dict.fromkeys(questions.get(language, ())))
        yield Candidate(text_of_html(first, with_links=True), payload, "", examples)


def _by_language(value: Any) -> dict[str, list[str]]:
    """Return texts by language; languages without a text are left out."""
    languages = value if isinstance(value, dict) else {"": value}
    texts = {
        language: [text.strip() for text in texts_of(own if isinstance(own, list) else [own])]
        for language, own in languages.items()
    }
    return {language: own for language, own in texts.items() if own}


BOTPRESS = Form(
    name="botpress",
    title="Botpress questions and answers (version 12)",
    holds="replies",
    export="Botpress 12: Q&A, Export to JSON; or the files of data/bots/NAME/qna",
    matches=lambda sample: find_base(sample, _BASES, "data.answers", "data.questions") is not None,
    read=read_botpress,
)
