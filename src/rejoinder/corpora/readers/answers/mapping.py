"""Replies as one JSON object: of answers by their questions, or of questions by their answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.records import gathered
from rejoinder.corpora.readers.answers.texts.marks import MARKS_OF_QUESTIONS, asks
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.json_parsing import parse_json
from rejoinder.patterns import match_pattern

_FIRST_KEY = match_pattern(r'\s{0,99}\{\s{0,999}"((?:[^"\\\n]|\\.){1,999})"\s{0,9}:\s{0,9}["\[]')
_ENDS = (*MARKS_OF_QUESTIONS, ".", "!")
NO_TEXT = "entries without a text"  # keys of `Reading.dropped`
NO_SENTENCE = "entries whose key is no question and whose text is no sentence"


def read_mapping(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield the replies of an object: of answers by their questions, or the reverse."""
    source = sample.source
    entries = _entries(sample, choice, reading)
    reading.notes.append(f"{source}: {MAPPING.title}")
    counts = Counter(key for key, _ in entries)
    if repeated := [key for key, count in counts.items() if count > 1]:
        reading.notes.append(
            f"{source}: keys that occur several times, of which all are read: {len(repeated):,}, "
            f"such as {json.dumps(repeated[0], ensure_ascii=False)[:60]}"
        )

    def candidates() -> Iterator[Candidate]:
        for key, value in entries:
            texts = _texts_of(value)
            if texts is None:
                raise InputError(
                    f"{source}: {json.dumps(key)[:60]} has {json.dumps(value)[:60]}; a question "
                    "has an answer, a text, or several; an answer has a list of questions"
                )
            if not texts or not key.strip():
                reading.drop(NO_TEXT)
            elif asks(key.strip()):
                payload = {"variants": texts[1:]} if len(texts) > 1 else {}
                yield Candidate(texts[0], payload, "", ((key.strip(),),))
            elif isinstance(value, list):
                yield Candidate(key.strip(), {}, "", tuple((text,) for text in texts))
            elif _is_title(key.strip(), texts[0]):
                yield Candidate(texts[0], {}, key.strip())
            else:
                reading.drop(NO_SENTENCE)

    yield from gathered(candidates(), reading, source)


def _entries(sample: Sample, choice: Choice, reading: Reading) -> list[tuple[str, Any]]:
    """Return the keys and values of a file's object, also those of keys that occur again.

    InputError: it is not JSON, or nothing tells questions from answers.
    """
    source = sample.source
    text = source.text(choice.encoding, reading)
    try:
        value = parse_json(text, _Pairs)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}: not JSON, or cut off ({error.msg}, line {error.lineno:,}, column "
            f"{error.colno:,}); mend it there, or copy or export it again"
        ) from None
    except ValueError as error:
        raise InputError(f"{source}: not JSON ({error}); copy or export it again") from None
    if not isinstance(value, _Pairs):
        raise InputError(f"{source}: a JSON {type(value).__name__}; an object is read")
    texts = [key.strip() for key, text in value if isinstance(text, str)]
    if texts and len(texts) == len(value) and not any(map(asks, texts)):
        raise InputError(
            f"{source}: {json.dumps(texts[0])[:60]} has a text, and nothing tells which of them is "
            "the answer; end questions with a question mark, or write {answer: [question, ...]}"
        )
    return value


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object of JSON."""


def _is_title(key: str, text: str) -> bool:
    """Return whether a key such as "Delivery" is the title of a text, not the name of a setting."""
    return text.endswith(_ENDS) and (key[0].isupper() or len(key.split()) > 1)


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
