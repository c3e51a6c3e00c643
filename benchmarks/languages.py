"""An FAQ in five languages: replies found by questions in the same language, and in English.

`python benchmarks/languages.py [--models MODEL...] [--faq shop]`. `data/library.jsonl` has 30
answers of a public library in Spanish, German, French, Italian and Portuguese, of our own wording,
with three questions each for the index. Held out are, of each answer, one question in other words
(*plain*), one that shares hardly a word with its questions (*indirect*), and two in English. Each
language is an index of 30 answers; *mixed* is a sixth one, whose answers take turns among the
languages, and which is asked in all of them.

The background of multilingual models was balanced on an FAQ of a shop, `data/languages.jsonl`
(`--faq shop`, which writes no result; two indirect questions each). The library's chose nothing.

Figures are R@1 in %, of the plain and English questions together in *both*. *Kept* and *refused*
are shares of messages with and without an answer for which the best reply is confident enough
(`--minimum-confidence 0.5`): questions, and everyday messages in the index's language and English.
Systems are models, and nearest questions by BM25 and by character n-grams, which answer everything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from unittest import mock

from common import write_result
from messages import DATA, Answer, Question, by_letters, by_words, index_of, share
from rejoinder import cache
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import open_encoder
from rejoinder.retrieval.calibration import CalibratedIndex
from threads import use_threads

LANGUAGES = ("es", "de", "fr", "it", "pt")
MIXED = "mixed"
CONFIDENCE = 0.5
LOWEST = -9.0  # score of a search that finds a reply to everything
FAQS = {"library": "library.jsonl", "shop": "languages.jsonl"}  # the first one reports
TIMES = 5  # that a text is encoded; the least time counts
Rows: TypeAlias = Mapping[str, Sequence[Question]]


class Faq(NamedTuple):
    """An index's replies, questions by row, and messages that no reply answers."""

    replies: list[Candidate]
    rows: Rows
    foreign: Mapping[str, Sequence[str]]


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=["use", "e5", "bi-small"])
    parser.add_argument("--faq", choices=FAQS, default="library")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    use_threads(given.threads)
    faqs = dict(read_faqs(FAQS[given.faq]))
    results: dict[str, Any] = {}
    speed: dict[str, Any] = {}
    for model in given.models:
        results[model], speed[model] = measure_model(model, faqs)
        print(model, results[model], speed[model], flush=True)
    for name, make in (("BM25", by_words), ("character n-grams", by_letters)):
        results[name] = {
            faq: {row: recall(make(replies), asked) for row, asked in rows.items()}
            for faq, (replies, rows, _) in faqs.items()
        }
        print(name, results[name], flush=True)
    means = {system: mean_of(figures) for system, figures in results.items()}
    print(json.dumps(means))
    if given.faq == "library":
        write_result("languages", {"means": means, "results": results, "speed": speed})


def read_faqs(name: str) -> Iterator[tuple[str, Faq]]:
    """Yield the FAQ of each language in a file, and the mixed one."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    topics = {
        language: [row for row in records if row["language"] == language and "topic" in row]
        for language in (*LANGUAGES, "en")
    }
    foreign = {row["language"]: row["foreign"] for row in records if "foreign" in row}
    english = questions_of_rows(topics["en"], "plain")
    for language in LANGUAGES:
        own = topics[language]
        rows = {row: questions_of_rows(own, row) for row in ("plain", "indirect")}
        others = {"own": foreign[language], "English": foreign["en"]}
        yield language, Faq([reply_of(row) for row in own], rows | {"English": english}, others)
    taken = [topics[LANGUAGES[at % len(LANGUAGES)]][at] for at in range(len(topics["en"]))]
    rows = {
        "plain": [each for own in LANGUAGES for each in questions_of_rows(topics[own], "plain")],
        "indirect": questions_of_rows(taken, "indirect"),
        "English": english,
    }
    everyday = [text for own in LANGUAGES for text in foreign[own]]
    others = {"own": everyday, "English": foreign["en"]}
    yield MIXED, Faq([reply_of(row) for row in taken], rows, others)


def reply_of(row: Mapping[str, Any]) -> Candidate:
    """Return an answer with its questions."""
    return Candidate(row["answer"], examples=tuple((each,) for each in row["questions"]))


def questions_of_rows(rows: Sequence[Mapping[str, Any]], field: str) -> list[Question]:
    """Return held-out questions, each with the number of its answer."""
    return [(at, text) for at, row in enumerate(rows) for text in row[field]]


def measure_model(model: str, faqs: Mapping[str, Faq]) -> tuple[dict[str, Any], dict[str, float]]:
    """Return a model's figures by FAQ, and its times."""
    encoder = open_encoder(model)
    encoder.encode_contexts([["?"]])  # weights are read with the first text
    figures = {}
    seconds = []
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(cache, "user_cache_path", return_value=Path(folder)),
    ):
        for name, faq in faqs.items():
            start = time.perf_counter()
            with index_of(encoder, faq.replies) as index:
                seconds.append(time.perf_counter() - start)
                figures[name] = measure_index(index, faq)
    texts = [text for _, text in faqs["es"].rows["plain"]]
    best = [least_time(encoder, text) for text in texts]
    return figures, {
        "first build, s": round(seconds[0], 1),
        "build, s": round(statistics.median(seconds[1:]), 1),
        "text, ms": round(1000 * statistics.median(best), 1),
    }


def measure_index(index: Any, faq: Faq) -> dict[str, float]:
    """Return the figures of an index."""

    def answer(asked: Sequence[Any]) -> list[list[int]]:
        found = index.search(list(asked), 1, minimum_score=LOWEST)
        return [[reply.position for reply in own] for own in found]

    figures = {row: recall(answer, asked) for row, asked in faq.rows.items()}
    calibrated = CalibratedIndex(index)

    def answered(texts: Sequence[str]) -> list[bool]:
        found = calibrated.answer([[text] for text in texts], CONFIDENCE, 1)
        return [bool(each.replies) for each in found]

    for row, asked in faq.rows.items():
        figures[f"{row} kept"] = share(answered([text for _, text in asked]))
    for row, texts in faq.foreign.items():
        figures[f"{row} refused"] = share(not each for each in answered(texts))
    return figures


def recall(answer: Answer, asked: Sequence[Question]) -> float:
    """Return how many questions find their reply first, in %."""
    found = answer([[text] for _, text in asked])
    return share(each[:1] == [at] for each, (at, _) in zip(found, asked, strict=True))


def least_time(encoder: Any, text: str) -> float:
    """Return the seconds in which a text is encoded."""
    times = []
    for _ in range(TIMES):
        start = time.perf_counter()
        encoder.encode_contexts([[text]])
        times.append(time.perf_counter() - start)
    return min(times)


def mean_of(figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the means of five languages' figures."""
    means = {
        row: round(statistics.mean(figures[language][row] for language in LANGUAGES), 1)
        for row in figures[LANGUAGES[0]]
    }
    both = (means["plain"] + 2 * means["English"]) / 3  # there are twice as many English ones
    return means | {"both": round(both, 1)}


if __name__ == "__main__":
    main()
