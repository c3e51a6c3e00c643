"""Knowledge bases of questions with answers: QnA Maker, Bot Framework, QnABot, Botpress."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers import read_table
from rejoinder.corpora.readers.form import OF_TABLES, Form
from rejoinder.corpora.readers.html_text import text_of_html
from rejoinder.corpora.readers.standing import INACTIVE
from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.source import Sample, json_values, texts_of
from rejoinder.corpora.tables import Choice, fold
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern, search_pattern

# QnA Maker and Azure's custom question answering: the exported table, a row a question. Before
# 2019 the columns were Question, Answer, Source and Keywords, with a header for each source.

_NEW_COLUMNS = {"question", "answer", "metadata"}
_OLD_COLUMNS = {"question", "answer", "source"}


def read_qna(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    r"""Yield a reply for each answer; its line breaks are written as \n."""
    for reply in read_table(sample, choice, reading):
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


# Bot Framework's .qna files: a heading with a question mark before the question, further questions
# as a list, the answer between lines of three backticks.

_QUESTION = match_pattern(r"[ \t]{0,8}#{1,6}[ \t]*\?[ \t]*(\S.*)")
_ANY_QUESTION = search_pattern(r"^[ \t]{0,8}#{1,6}[ \t]{0,8}\?", re.MULTILINE)
_ITEM = match_pattern(r"[ \t]*[-*+][ \t]+(\S.*)")
_SECTION = match_pattern(r"[ \t]*\*\*([A-Za-z ]{1,40}):?\*\*:?[ \t]*")
_FENCE = "```"


@dataclass
class _Pair:
    """A question that is being read, with what is known of its answer."""

    number: int  # of its line
    questions: list[str] = field(default_factory=list)
    answer: list[str] | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    section: str = ""  # of the list: filters, prompts


def read_qna_file(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each question of a .qna file. InputError: an answer does not end."""
    pair: _Pair | None = None
    is_inside = False
    text = sample.source.text(choice.encoding, reading)
    for number, line in enumerate(text.split("\n"), 1):
        if is_inside and pair is not None:
            is_inside = not line.strip().startswith(_FENCE)
            if is_inside and pair.answer is not None:
                pair.answer.append(line)
        elif match := _QUESTION.fullmatch(line):
            yield from _of_pair(pair, reading)
            pair = _Pair(number, [match[1].strip()])
        elif pair is not None and line.strip().startswith(_FENCE):
            is_inside = True
            pair.answer = []
        elif pair is not None:
            _read_line(line, pair)
    if is_inside:
        raise InputError(f"{sample.source}: the answer of line {pair and pair.number} has no end")
    yield from _of_pair(pair, reading)


def _read_line(line: str, pair: _Pair) -> None:
    """Read a line before or behind an answer: a further question, a filter, or nothing."""
    if match := _SECTION.fullmatch(line):
        pair.section = match[1].strip().lower()
    elif match := _ITEM.fullmatch(line):
        if pair.section == "filters":
            name, _, value = match[1].partition("=")
            pair.payload[name.strip()] = value.strip()
        elif not pair.section and pair.answer is None:
            pair.questions.append(match[1].strip())


def _of_pair(pair: _Pair | None, reading: Reading) -> Iterator[Candidate]:
    if pair is None:
        return
    answer = textwrap.dedent("\n".join(pair.answer or ())).strip()
    if not answer:
        reading.drop("questions without an answer")
        return
    questions = tuple((question,) for question in dict.fromkeys(pair.questions))
    yield Candidate(answer, pair.payload, pair.questions[0], questions)


QNA_FILE = Form(
    name="qna-file",
    title="Bot Framework's .qna file",
    holds="replies",
    export="Bot Framework Composer: the project's knowledge-base/*.qna; bf qnamaker:convert",
    matches=lambda sample: (
        sample.kind in ("markdown", "text")
        and (
            sample.source.name.suffix.lower() == ".qna"
            or (_FENCE in sample.text and _ANY_QUESTION.search(sample.text) is not None)
        )
    ),
    read=read_qna_file,
)


# QnABot on AWS: the exported JSON, an object with qid, q and a for each answer.


def _base(sample: Sample, bases: tuple[str, ...], *keys: str) -> str | None:
    """Return the path of the objects that have all of these keys."""
    return next(
        (base for base in bases if all(f"{base}{key}" in sample.keys for key in keys)), None
    )


_QNABOT_BASES = ("qna.item.", "item.", "")


def read_qnabot(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each answer."""
    del choice
    base = _base(sample, _QNABOT_BASES, "qid", "q", "a") or "qna.item."
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
    matches=lambda sample: _base(sample, _QNABOT_BASES, "qid", "q", "a") is not None,
    read=read_qnabot,
)


# Botpress (version 12): the exported questions and answers, or the files of a bot's qna folder.

_BOTPRESS_BASES = ("qnas.item.", "item.", "")


def read_botpress(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Candidate]:
    """Yield a reply for each entry that answers with a text, in each of its languages."""
    base = _base(sample, _BOTPRESS_BASES, "data.answers", "data.questions") or ""
    path = base.removesuffix(".")
    for _, entry in json_values(sample.source, {path}, sample.encoding, reading):
        data = entry.get("data") if isinstance(entry, dict) else None
        if not isinstance(data, dict):
            reading.drop("entries without an answer")
            continue
        if not choice.inactive and str(data.get("enabled")).lower() == "false":
            reading.drop(INACTIVE)
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
            payload["variants"] = [text_of_html(text) for text in others]
        examples = tuple((text,) for text in dict.fromkeys(questions.get(language, ())))
        yield Candidate(text_of_html(first), payload, "", examples)


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
    matches=lambda sample: (
        _base(sample, _BOTPRESS_BASES, "data.answers", "data.questions") is not None
    ),
    read=read_botpress,
)
