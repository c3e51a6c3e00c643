"""QnA Maker and Azure's custom question answering: the exported table, a row a question.

Before 2019 the columns were Question, Answer, Source and Keywords, with a header for each source.
Rows whose IsContextOnly is true answer only behind another answer, and are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import find_column, fold
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.table import read_table
from rejoinder.corpora.readers.flags import is_yes
from rejoinder.corpora.readers.form import OF_TABLES, Form
from rejoinder.corpora.readers.standing import CONDITIONAL
from rejoinder.corpora.schema import Candidate

_NEW_COLUMNS = {"question", "answer", "metadata"}
_OLD_COLUMNS = {"question", "answer", "source"}


def read_qna(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    r"""Yield a reply for each answer; its line breaks are written as \n."""
    only = find_column(sample.columns, ["iscontextonly"])
    answer = find_column(sample.columns, ["answer"])
    counted: set[str] = set()

    def is_follow_up(row: Mapping[str, Any]) -> bool:
        """Return whether a row answers only behind another one; count each answer once."""
        if only is None or not is_yes(row[only]):
            return False
        text = str(row.get(answer or ""))
        if text not in counted:
            counted.add(text)
            reading.drop(CONDITIONAL)
        return True

    for reply in read_table(sample, choice, reading, is_follow_up):
        lines = reply.text.replace("\\n", "\n").strip().split("\n")
        payload = {
            key: value for key, value in reply.payload.items() if value not in ("", "[]", None)
        }
        yield dataclasses.replace(reply, text="\n".join(map(str.rstrip, lines)), payload=payload)


def _is_qna_maker(sample: Sample) -> bool:
    if sample.kind.startswith("json"):
        return False
    names = {fold(name) for name in sample.columns}
    is_old = names >= _OLD_COLUMNS and (
        "keywords" in names or (len(names) == 3 and "\t" in sample.text.partition("\n")[0])
    )
    return names >= _NEW_COLUMNS or is_old


QNA_MAKER = Form(
    name="qna-maker",
    title="QnA Maker knowledge base",
    holds="replies",
    export="QnA Maker: Settings, Export knowledge base (.tsv or .xlsx); Language Studio: Export",
    matches=_is_qna_maker,
    read=read_qna,
    takes=OF_TABLES,
)
