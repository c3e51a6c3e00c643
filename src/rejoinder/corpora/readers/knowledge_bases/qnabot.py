"""QnABot on AWS: the exported JSON, an object with qid, q and a for each answer."""

from __future__ import annotations

from collections.abc import Iterator

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import json_values, texts_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.knowledge_bases.json_base import find_base
from rejoinder.corpora.schema import Candidate

_BASES = ("qna.item.", "item.", "")


def read_qnabot(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each answer."""
    del choice
    base = find_base(sample, _BASES, "qid", "q", "a") or "qna.item."
    path = base.removesuffix(".")
    for _, entry in json_values(sample.source, {path}, sample.encoding, reading):
        answer = entry.get("a") if isinstance(entry, dict) else None
        if not isinstance(answer, str) or not answer.strip():
            reading.drop("entries without an answer")
            continue
        questions = entry.get("q")
        listed = texts_of(questions if isinstance(questions, list) else [questions])
        examples = tuple((text.strip(),) for text in dict.fromkeys(listed))
        topic = entry.get("t")
        payload = {"id": entry.get("qid"), **({"topic": topic} if topic else {})}
        yield Candidate(answer.strip(), payload, "", examples)


QNABOT = Form(
    name="qnabot",
    title="QnABot on AWS",
    holds="replies",
    export="QnABot: Content Designer, Tools, Export; the .json",
    matches=lambda sample: find_base(sample, _BASES, "qid", "q", "a") is not None,
    read=read_qnabot,
)
