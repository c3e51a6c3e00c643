"""Replies as one JSON object: of answers by their questions, or of questions by their answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.records import gathered
from rejoinder.corpora.readers.answers.texts.marks import MARKS_OF_QUESTIONS
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.json_parsing import parse_json
from rejoinder.patterns import match_pattern

_FIRST_KEY = match_pattern(r'\s{0,99}\{\s{0,999}"((?:[^"\\\n]|\\.){1,999})"\s{0,9}:\s{0,9}["\[]')
_ENDS = (*MARKS_OF_QUESTIONS, ".", "!")
NO_TEXT = "entries without a text"  # a key of `Reading.dropped`


def read_mapping(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield the replies of an object: of answers by their questions, or the reverse."""
    source = sample.source
    try:
        entries = parse_json(source.text(choice.encoding, reading))
    except ValueError as error:
        raise InputError(f"{source}: not JSON ({error}); copy or export it again") from None

    def candidates() -> Iterator[Candidate]:
        for key, value in entries.items():
            texts = _texts_of(value)
            if texts is None:
                raise InputError(
                    f"{source}: {json.dumps(key)[:60]} has {json.dumps(value)[:60]}; a question "
                    "has an answer, a text, or several; an answer has a list of questions"
                )
            is_asked = key.strip().endswith(MARKS_OF_QUESTIONS)
            if not texts or not key.strip():
                reading.drop(NO_TEXT)
            elif isinstance(value, str) and not is_asked:
                reading.drop("entries whose key is no question")
            elif is_asked:
                payload = {"variants": texts[1:]} if len(texts) > 1 else {}
                yield Candidate(texts[0], payload, "", ((key.strip(),),))
            else:
                yield Candidate(key.strip(), {}, "", tuple((text,) for text in texts))

    yield from gathered(candidates(), reading, source)


def _texts_of(value: Any) -> list[str] | None:
    """Return the texts of a value that are not blank; None: it is not a text or a list of texts."""
    listed = value if isinstance(value, list) else [value]
    if not all(text is None or isinstance(text, str) for text in listed):
        return None
    return [text.strip() for text in listed if text and text.strip()]


def _is_mapping(sample: Sample) -> bool:
    """Return whether a file is one object whose first key is a sentence, not a name."""
    if sample.kind == "json lines" and sum(map(bool, map(str.strip, sample.lines))) > 1:
        return False
    match = _FIRST_KEY.match(sample.text) if sample.kind in ("json", "json lines") else None
    has_objects = any(".item." in key for key in sample.keys)
    return match is not None and not has_objects and match[1].strip().endswith(_ENDS)


MAPPING = Form(
    name="json-mapping",
    title="JSON object of answers by their questions, or of questions by their answer",
    holds="replies",
    export="Python: json.dump of a dict, {question: answer} or {answer: [question, ...]}",
    matches=_is_mapping,
    read=read_mapping,
)
