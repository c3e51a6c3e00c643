"""Replies that are known by the questions they answer: how often the right one comes first.

Two public bots, as the folder `eval/faq` of REJOINDER_DATA has them: the answers of a health
authority, each with its own question, and those of a chatbot with 1, 3 and 10 questions each.
Other questions of the same answers are asked. Messages of CLINC150, gibberish and other languages
belong to no answer: how many stay below the score that 95 % of the bot's own questions reach?

    REJOINDER_DATA=DATA python benchmarks/examples.py bi-small bi-base

`--speed` instead: 1,000 replies with ten examples each (BANKING77's texts, at random).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import write_result
from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.words.word_index import WordIndex
from rejoinder.errors import InputError
from rejoinder.retrieval.encoding.views import encode_conversations, encode_views
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE
from rejoinder.text.background import background

ASKED = 3000
FOREIGN = 500
COUNTS = (1, 3, 10)
HELD_OUT_FROM = 10  # questions of an answer; those from there on are asked
OTHER = """¿Qué vamos a comer hoy?
Mi hermano vive en Madrid.
No entiendo lo que dices.
Ayer llovió todo el día.
Quel temps fait-il à Paris ?
Mon chat dort sur le canapé.
Il faut que je parte.
Wie wird das Wetter am Wochenende?
Meine Schwester studiert in Berlin.
Das habe ich nicht verstanden.
Che tempo fa oggi?
Non ho capito niente.
Qual é a capital do Brasil?
Hoe laat is het?
Jaka jest dzisiaj pogoda?
Bugün hava nasıl?
Vad ska vi äta ikväll?
今天天气怎么样？
我喜欢看电影。
明日は何をしますか？
猫が好きです。
كيف حالك اليوم؟
आज मौसम कैसा है?
오늘 날씨가 어때요?"""  # noqa: RUF001
GIBBERISH = """jdkjfkd skjdksjd
asdfasdf
qwertyuiop
lkjhgfdsa
xxxx yyyy zzzz
blorf snarg wibble
?!?!?!
12345
kjsdhf kjh sdf
zzz
aaaaaaa
fnord gribble
hgfjhgf jhgf
werwer werwer
mnbvcxz lkj
dsfsdf sdfsdf sdf
hjkhjk
ghjkl"""
Asked = list[tuple[int, str]]


def main() -> None:
    """Print a line for each bot and model; write `results/examples.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--speed", action="store_true", help="measure seconds instead of answers")
    options = parser.parse_args()
    folder = os.environ.get("REJOINDER_DATA", "")
    if not folder:
        raise InputError("REJOINDER_DATA is not set; it names the folder that has eval/faq")
    data = Path(folder) / "eval"
    measure = speed if options.speed else answers
    rows = [row for name in options.models for row in measure(open_encoder(name), data)]
    write_result("examples_speed" if options.speed else "examples", {"rows": rows})


def answers(model: DualEncoder, data: Path) -> list[dict[str, Any]]:
    """Return what a model finds, by bot and number of questions."""
    foreign = foreign_messages(data)
    rows = []
    for name, replies, asked in bots(data / "faq"):
        with tempfile.TemporaryDirectory() as folder:
            index = Index.build(model, replies, Path(folder) / "index")
            alone = Index.build(model, [reply.text for reply in replies], Path(folder) / "alone")
            numbers, scores = best(index, [question for _, question in asked])
            plain, _ = best(alone, [question for _, question in asked])
            own = [(row, reply.examples[0][0]) for row, reply in enumerate(replies)]
            exact, _ = best(index, [question for _, question in own])
            threshold = np.quantile(scores, 0.05)
            head = index.manifest.head
            assert head is not None
            row = {
                "model": model.name,
                "bot": name,
                "asked": len(asked),
                "texts_alone": share(plain, asked),
                "bm25": share(by_words(replies, asked), asked),
                "r_at_1": share(numbers, asked),
                "own_questions": share(exact, own),
                "kept_by_default": float((scores >= head.minimum_score).mean()),
            }
            for kind, messages in foreign.items():
                _, theirs = best(index, messages)
                row[kind] = float((theirs < threshold).mean())
                row[f"{kind}_by_default"] = float((theirs < head.minimum_score).mean())
        print(
            json.dumps(
                {
                    key: round(value, 3) if isinstance(value, float) else value
                    for key, value in row.items()
                }
            )
        )
        rows.append(row)
    return rows


def best(index: Index, messages: Sequence[str]) -> tuple[list[int], np.ndarray[Any, Any]]:
    """Return the position and the score of the best reply to each message."""
    found = index.search([[message] for message in messages], 1, ANY_SCORE)
    return [own[0].position for own in found], np.array([own[0].score for own in found])


def by_words(replies: Sequence[Candidate], asked: Asked) -> list[int]:
    """Return the best answer to each question by BM25, each with its questions as one text."""
    texts = [" ".join([reply.text, *(text for (text,) in reply.examples)]) for reply in replies]
    index = WordIndex.of(texts)
    return [int(np.argmax(index.scores(question))) for _, question in asked]


def share(numbers: Sequence[int], asked: Asked) -> float:
    """Return how often the right answer came first."""
    return float(
        np.mean([number == right for number, (right, _) in zip(numbers, asked, strict=True)])
    )


def bots(folder: Path) -> list[tuple[str, list[Candidate], Asked]]:
    """Return the name of each bot, its replies, and questions with the numbers of their replies."""
    crowd = read(folder / "covid_crowd.jsonl")
    asked = [
        (row, question)
        for row, entry in enumerate(crowd)
        for question in entry["asked"]
        if text_key(question) != text_key(entry["question"])
    ]
    random.Random(1).shuffle(asked)
    replies = [Candidate(entry["answer"], examples=((entry["question"],),)) for entry in crowd]
    made = [("covid_crowd, own question", replies, asked[:ASKED])]
    chatbot = []
    for entry in read(folder / "cosibot_en.jsonl"):
        questions = list({text_key(text): text for text in reversed(entry["questions"])}.values())
        random.Random(0).shuffle(questions)
        chatbot.append((entry["answer"], questions))
    later = [(row, text) for row, (_, own) in enumerate(chatbot) for text in own[HELD_OUT_FROM:]]
    for count in COUNTS:
        replies = [
            Candidate(answer, examples=tuple((text,) for text in questions[:count]))
            for answer, questions in chatbot
        ]
        made.append((f"cosibot, {count} questions", replies, later))
    return made


def foreign_messages(data: Path) -> dict[str, list[str]]:
    """Return messages that belong to no bot."""
    texts = json.loads((data / "clinc150/data_full.json").read_text(encoding="utf-8"))
    others = [text for text, _ in [*texts["test"], *texts["oos_test"]]]
    return {
        "clinc150": random.Random(0).sample(others, FOREIGN),
        "gibberish": GIBBERISH.splitlines(),
        "languages": OTHER.splitlines(),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def speed(model: DualEncoder, data: Path) -> list[dict[str, Any]]:
    """Return the seconds of building and of searching an index, with examples and without."""
    lines = (data / "banking77/train.csv").read_text(encoding="utf-8").splitlines()[1:]
    texts = [line.rpartition(",")[0].strip('"') for line in lines]
    random.Random(0).shuffle(texts)
    replies = [
        Candidate(
            f"Answer {row}: {texts[10 * row]}",
            examples=tuple((text,) for text in texts[10 * row : 10 * row + 10]),
        )
        for row in range(len(texts) // 10)
    ]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        model.encode_responses([reply.text for reply in replies])
        encode_views(model, replies)
        encode_conversations(model, [[text] for text in background()])
        encoding = time.perf_counter() - begin
        begin = time.perf_counter()
        index = Index.build(model, replies, Path(folder) / "index")
        total = time.perf_counter() - begin
        plain = Index.build(model, [reply.text for reply in replies], Path(folder) / "plain")
        seconds: dict[str, list[float]] = {"examples": [], "texts": []}
        for text in texts[:300]:
            for name, own in (("examples", index), ("texts", plain)):
                begin = time.perf_counter()
                own.search([[text]], 5, ANY_SCORE, distinct=True)
                seconds[name].append(time.perf_counter() - begin)
    row = {
        "model": model.name,
        "build": total,
        "encoding": encoding,
        "beside": total - encoding,
        "search_ms": 1000 * float(np.median(seconds["examples"])),
        "search_without_ms": 1000 * float(np.median(seconds["texts"])),
    }
    print(json.dumps(row))
    return [row]


if __name__ == "__main__":
    main()
