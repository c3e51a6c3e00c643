"""QnA Maker and Azure's custom question answering: the exported table, a row a question."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from rejoinder.corpora.example import Candidate
from rejoinder.corpora.form import OF_TABLES, Form
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers import read_table
from rejoinder.corpora.source import Sample
from rejoinder.corpora.tables import Choice, fold


def read_qna(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    r"""Yield a reply for each answer; its line breaks are written as \n."""
    for reply in read_table(sample, choice, reading):
        text = reply.text.replace("\\n", "\n").strip()
        payload = {
            key: value for key, value in reply.payload.items() if value not in ("", "[]", None)
        }
        yield dataclasses.replace(reply, text=text, payload=payload)


FORM = Form(
    name="qna-maker",
    title="QnA Maker knowledge base",
    holds="replies",
    export="QnA Maker: Settings, Export knowledge base (.tsv or .xlsx); Language Studio: Export",
    matches=lambda sample: (
        not sample.kind.startswith("json")
        and {"question", "answer", "metadata"} <= {fold(name) for name in sample.columns}
    ),
    read=read_qna,
    takes=OF_TABLES,
)
