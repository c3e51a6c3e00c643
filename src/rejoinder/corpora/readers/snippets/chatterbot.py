"""ChatterBot: a training corpus, whose conversations are lists of statements."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import texts_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.records import gathered
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.yaml_text import load_sample
from rejoinder.corpora.schema import Candidate
from rejoinder.patterns import search_pattern

_CONVERSATIONS = search_pattern(r"^conversations:", re.MULTILINE)
_STATEMENT = search_pattern(r"^[ \t]{0,8}-[ \t]{1,8}-[ \t]", re.MULTILINE)


def read_chatterbot(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each statement that answers another one."""
    values = load_sample(sample, choice, reading)
    conversations = values.get("conversations") if isinstance(values, dict) else None
    categories = values.get("categories") if isinstance(values, dict) else None
    named = texts_of(categories if isinstance(categories, list) else [])
    payload = {"category": named[0]} if named else {}

    def replies() -> Iterator[Candidate]:
        for conversation in conversations if isinstance(conversations, list) else ():
            texts = texts_of(conversation if isinstance(conversation, list) else ())
            statements = [text.strip() for text in texts]
            if len(statements) < 2:
                reading.drop("conversations of one statement")
            for asked, answer in itertools.pairwise(statements):
                yield Candidate(answer, payload, "", ((asked,),))

    yield from gathered(replies(), reading, sample.source)


CHATTERBOT = Form(
    name="chatterbot",
    title="ChatterBot corpus",
    holds="replies",
    export="ChatterBot: the .yml files of the corpus that the bot was trained on",
    matches=lambda sample: (
        sample.kind == "yaml"
        and _CONVERSATIONS.search(sample.text) is not None
        and _STATEMENT.search(sample.text) is not None
    ),
    read=read_chatterbot,
)
