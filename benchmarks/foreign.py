"""Messages that are nobody's: how many are refused where 95 % of an index's own are kept.

    REJOINDER_DATA=DATA python benchmarks/foreign.py bi-small [MODEL...] [--half validation]

Indexes are halves of two public bots: a chatbot's answers with one, three and ten questions each,
and a health authority's with one. Foreign are questions to a bank (BANKING77) and commands to voice
assistants (HWU64, CLINC150). Answers take turns between the halves, intents are drawn by a hash:
one half chose the settings of scores (validation, with the training texts of its intents), the
other one reports (with test texts). The chatbot answers some of the commands, such as "what day is
it": `voice_without_reply` leaves out those of intents that an index has a reply to (`ANSWERED`, by
the names of intents and replies).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import write_result
from examples import GIBBERISH, HELD_OUT_FROM, OTHER, Asked, best, read
from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index

HALVES = ("validation", "report")
COUNTS = (1, 3, 10)
ASKED = 1500
FOREIGN = 500  # of each source
KEPT = 0.95
SEED = 7
ANSWERED = {
    "are_you_a_bot": {"bot_real"},
    "change_language": {"bot_languages"},
    "date": {"features_date"},
    "datetime_query": {"features_date", "features_time"},
    "do_you_have_pets": {"bot_personal_questions"},
    "general_joke": {"cc_joke"},
    "general_praise": {"comment_positive", "comment_smart"},
    "goodbye": {"greeting_goodbye"},
    "greeting": {"greeting_hello", "greeting_how_are_you"},
    "how_old_are_you": {"bot_personal_questions"},
    "meaning_of_life": {"cc_philosophical"},
    "news_query": {"cc_newspaper"},
    "tell_joke": {"cc_joke"},
    "thank_you": {"vocative_thank_you"},
    "time": {"features_time"},
    "weather": {"cc_weather"},
    "weather_query": {"cc_weather"},
    "what_are_your_hobbies": {"bot_personal_questions"},
    "what_can_i_ask_you": {"bot_capabilities"},
    "what_is_your_name": {"bot_name"},
    "where_are_you_from": {"bot_residence"},
    "who_made_you": {"bot_origin"},
}
"""Intents of voice assistants, with the chatbot's replies that answer them."""


def main() -> None:
    """Print a line for each model and index; write `results/foreign.json` of the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--half", choices=HALVES, default="report")
    options = parser.parse_args()
    folder = os.environ.get("REJOINDER_DATA", "")
    if not folder:
        raise InputError("REJOINDER_DATA is not set; it names the folder that has eval")
    data = Path(folder) / "eval"
    half = HALVES.index(options.half)
    rows = []
    for name in options.models:
        model = open_encoder(name).with_cache()
        for row in measure(model, data, half):
            rows.append({"model": name, **row})
            print(json.dumps(rows[-1]), flush=True)
    if options.half == "report":
        write_result("foreign", {"rows": rows})


def measure(model: DualEncoder, data: Path, half: int) -> Iterator[dict[str, Any]]:
    """Yield what a model refuses, by index."""
    others = foreign_messages(data, half)
    for name, names, replies, asked in bots(data / "faq", half):
        with tempfile.TemporaryDirectory() as folder:
            index = Index.build(model, replies, Path(folder) / "index")
            questions = [question for _, question in asked]
            found, own = best(index, questions)
            right = [at == number for at, (number, _) in zip(found, asked, strict=True)]
            row = {
                "bot": name,
                "r_at_1": percent(right),
                "kept_by_default": percent(~refused(index, questions)),
            }
            threshold = np.quantile(own, 1 - KEPT)
            for kind, messages in others.items():
                texts = [text for text, _ in messages]
                below = best(index, texts)[1] < threshold
                default = refused(index, texts)
                row[kind] = percent(below)
                row[f"{kind}_by_default"] = percent(default)
                foreign = [not ANSWERED.get(intent, set()) & names for _, intent in messages]
                if any(intent in ANSWERED for _, intent in messages):
                    row[f"{kind}_without_reply"] = percent(below[foreign])
                    row[f"{kind}_without_reply_by_default"] = percent(default[foreign])
        yield row


def refused(index: Index, messages: Sequence[str]) -> Any:
    """Return whether a search as it is by default finds nothing, of each message."""
    return np.array([not own for own in index.search([[message] for message in messages], 1)])


def percent(flags: Any) -> float:
    """Return the share of flags that are set, in %."""
    return round(100 * float(np.mean(flags)), 1)


def bots(folder: Path, half: int) -> Iterator[tuple[str, set[str], list[Candidate], Asked]]:
    """Yield each index's name, its replies' names and texts, and questions with their numbers."""
    chatbot = []
    names = set()
    for entry in read(folder / "cosibot_en.jsonl")[half::2]:
        questions = list({text_key(text): text for text in reversed(entry["questions"])}.values())
        random.Random(0).shuffle(questions)
        chatbot.append((entry["answer"], questions))
        names.add(entry["name"])
    later = [(row, text) for row, (_, own) in enumerate(chatbot) for text in own[HELD_OUT_FROM:]]
    for count in COUNTS:
        replies = [
            Candidate(answer, examples=tuple((text,) for text in questions[:count]))
            for answer, questions in chatbot
        ]
        yield f"cosibot, {count} questions", names, replies, shuffled(later)
    crowd = read(folder / "covid_crowd.jsonl")[half::2]
    replies = [Candidate(entry["answer"], examples=((entry["question"],),)) for entry in crowd]
    asked = [
        (row, text)
        for row, entry in enumerate(crowd)
        for text in entry["asked"]
        if text_key(text) != text_key(entry["question"])
    ]
    yield "covid_crowd, own question", set(), replies, shuffled(asked)


def shuffled(asked: Asked) -> Asked:
    """Return some questions."""
    drawn = list(asked)
    random.Random(SEED).shuffle(drawn)
    return drawn[:ASKED]


def foreign_messages(data: Path, half: int) -> dict[str, list[tuple[str, str]]]:
    """Return foreign messages with their intents; bank and voice those of a half of the intents."""
    part = ("train", "test")[half]
    with (data / f"banking77/{part}.csv").open(encoding="utf-8", newline="") as file:
        bank = [(row["text"], row["category"]) for row in csv.DictReader(file)]
    place = data / "hwu64" / part
    names = ("seq.in", "label")
    texts, labels = ((place / name).read_text(encoding="utf-8").splitlines() for name in names)
    clinc = json.loads((data / "clinc150/data_full.json").read_text(encoding="utf-8"))[part]
    draw = random.Random(SEED)
    chosen = {
        "bank": of_half(bank, half, draw),
        "voice": [
            *of_half(zip(texts, labels, strict=True), half, draw),
            *of_half(clinc, half, draw),
        ],
    }
    for kind, lines in {"languages": OTHER, "gibberish": GIBBERISH}.items():
        chosen[kind] = [(text, "") for text in lines.splitlines()]
    return chosen


def of_half(
    rows: Iterable[tuple[str, str]], half: int, draw: random.Random
) -> list[tuple[str, str]]:
    """Return some texts of the intents of a half, with their intents."""
    found = [
        (text, intent)
        for text, intent in rows
        if hashlib.sha256(intent.encode()).digest()[0] & 1 == half
    ]
    return draw.sample(found, min(FOREIGN, len(found)))


if __name__ == "__main__":
    main()
