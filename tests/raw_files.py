"""Small files of the real formats, under the names that the documented commands give them."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import zstandard

from rejoinder.corpora.splits import thread_share
from tests.corpora.readers import test_amazon_qa as amazon
from tests.corpora.readers import test_semeval as semeval
from tests.corpora.readers import test_ubuntu as ubuntu
from tests.corpora.readers import test_wikipedia as wikipedia
from tests.corpora.readers.test_dstc7 import dialogue, option
from tests.corpora.reddit_lines import comment, dump

COMPRESS: dict[str, Callable[[bytes], bytes]] = {".zst": zstandard.compress, ".gz": gzip.compress, ".bz2": bz2.compress}
WORDS = ("tea", "cats", "rain", "music", "trains", "bread", "films")


def said(number: int, place: int) -> str:
    """What is said at a place of a conversation."""
    return f"{WORDS[number % 7]} {place} is what we like {WORDS[(number + place) % 7]} {number}"


def convai2(first: int, count: int, candidates: bool, rows: int = 7) -> str:
    """Dialogues of 14 messages, with 20 candidates each or with none."""
    lines = []
    for number in range(first, first + count):
        lines.append(f"1 your persona: i like {WORDS[number % 7]}.")
        for row in range(rows):
            answer = said(number, 2 * row + 1)
            others = "|".join(said(number + other, other) for other in range(1, 20))
            listed = f"\t\t{others}|{answer}" if candidates else ""
            lines.append(f"{row + 2} {said(number, 2 * row)}\t{answer}{listed}")
    return "\n".join(lines) + "\n"


def ubuntu_rows(count: int, wide: bool) -> str:
    contexts = ["".join(f"{said(number, place)} __eou__ __eot__ " for place in range(13)) for number in range(count)]
    if not wide:
        rows = [[context, f"{said(number, 99)} __eou__", "1.0"] for number, context in enumerate(contexts)]
        return ubuntu.text_of([ubuntu.TRAIN[0], *rows])
    rows = [[c, *(f"{said(number, place)} __eou__" for place in range(20, 30))] for number, c in enumerate(contexts)]
    return ubuntu.text_of([ubuntu.WIDE[0], *rows])


TEST_DIALOGUES = 500  # numbers of DSTC7's test dialogues, whose texts are in no other part


def dstc7(count: int, part: str, answers: bool = True) -> str:
    records = []
    for number in range(count):
        record = dialogue(part, messages=13, name=number)
        told = number + (TEST_DIALOGUES if part == "test" else 0)
        for place, message in enumerate(record["messages-so-far"]):
            message["utterance"] = said(told, place)
        record["options-for-next"] = [option(f"C{place}", said(told, 20 + place)) for place in range(100)]
        record["options-for-correct-answers"] = [record["options-for-next"][7]]
        if not answers:
            del record["options-for-correct-answers"]
        records.append(record)
    return json.dumps(records)


def semeval_2016(first: int, count: int) -> str:
    threads = (semeval.thread(f"Q{n}_R1", [("Good", said(n, 1)), ("Bad", "no")]) for n in range(first, first + count))
    return f"{semeval.HEAD}{''.join(threads)}</xml>"


def reddit(threads: int) -> bytes:
    records = []
    for thread in range(threads):
        names = [f"{thread}c{number}" for number in range(14)]
        for place, name in enumerate(names):
            above = names[place - 1] if place else ""
            body = said(thread, place)
            records.append(comment(name, above, body, f"t{thread}", subreddit=["AskReddit", "askscience"][thread % 2]))
    return dump(records)


def lines(records: list[dict[str, object]]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def dialogues(first: int, count: int) -> str:
    return lines([{"turns": [said(number, place) for place in range(13)]} for number in range(first, first + count)])


def amazon_lines(count: int) -> str:
    questions = ({**amazon.SINGLE, "asin": f"B{n}", "question": f"Will {said(n, 1)}?", "answer": said(n, 2)}
                 for n in range(count))  # fmt: skip
    return "".join(f"{question}\n" for question in questions)


def articles(count: int) -> str:
    def text(number: int) -> str:
        return "\n\n".join(" ".join(f"Here {said(number, 9 * a + b)}." for b in range(4)) for a in range(3))

    held_out = [n for n in range(9_000) if thread_share(str(n)) > 0.996]  # some articles, however small the shares
    pages = (wikipedia.page(n, f"Title {n}", text(n)) for n in dict.fromkeys([*range(count), *held_out]))
    return "".join((wikipedia.HEAD, *pages, "</mediawiki>\n"))


def whatsapp(days: int) -> str:
    lines = (
        f"[{n % 28 + 1:02}.{n // 28 + 1:02}.24, 09:{place:02}:00] {'Shop' if place % 2 else 'Bea'}: {said(n, place)}\n"
        for n in range(days) for place in range(13)
    )
    return "".join(lines)


def faq(count: int) -> str:
    return "question,answer\n" + "".join(f"{said(n, 1)}?,{said(n % 30, 2)}\n" for n in range(count))


def daily(first: int, count: int) -> str:
    return "".join(
        "".join(f"{said(number, place)} . __eou__ " for place in range(6)) + "\n" for number in range(first, first + count)
    )


def empathetic(first: int, count: int) -> str:
    rows = [
        f"hit:{number}_conv:{number},{place + 1},proud,A prompt.,{place % 2},{said(number, place)},5|5|5_5|5|5,"
        for number in range(first, first + count)
        for place in range(4)
    ]
    return "\n".join(["conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags", *rows]) + "\n"


def woz(count: int) -> str:
    logs = ([{"text": said(number, place), "metadata": {}} for place in range(6)] for number in range(count))
    return json.dumps({f"SNG{number}.json": {"goal": {}, "log": log} for number, log in enumerate(logs)})


def assistant(count: int) -> str:
    lines = []
    for number in range(count):
        reply = {"message_id": f"b{number}", "role": "assistant", "text": said(number, 1), "lang": "en", "replies": []}
        root = {"message_id": f"a{number}", "role": "prompter", "text": said(number, 0), "lang": "en", "replies": [reply]}
        lines.append(json.dumps({"message_tree_id": f"a{number}", "prompt": root}))
    return "\n".join(lines) + "\n"


FILES: dict[str, Callable[[], str | bytes]] = {
    "questions.csv": lambda: faq(90),
    "faq.csv": lambda: faq(90),
    "pairs.csv": lambda: faq(90),
    "_chat.txt": lambda: whatsapp(60),
    "chats.jsonl": lambda: dialogues(0, 60),
    "gutenberg_dialogue.jsonl.zst": lambda: dialogues(100, 60),
    "self_dialogue.jsonl.zst": lambda: dialogues(200, 60),
    "byu_chitchat.jsonl.zst": lambda: dialogues(300, 60),
    "en.txt.gz": lambda: "".join(f"{said(number // 10, number)}\n" for number in range(900)),
    "qa_Appliances.json.gz": lambda: amazon_lines(90),
    "qa_Video_Games.json.gz": lambda: amazon_lines(90),
    "QA_Video_Games.json.gz": lambda: f"{amazon.MULTIPLE}\n",
    "enwiki-20240101-pages-articles.xml.bz2": lambda: articles(400),
    "books_large_p1.txt": lambda: "".join(f"{said(n // 10, n)} .\n" for n in range(300)),
    "train.csv": lambda: ubuntu_rows(60, wide=False),
    "valid.csv": lambda: ubuntu_rows(24, wide=True),
    "test.csv": lambda: ubuntu_rows(12, wide=True),
    "ubuntu_train_subtask_1.json": lambda: dstc7(12, "train"),
    "ubuntu_dev_subtask_1.json": lambda: dstc7(40, "dev"),
    "ubuntu_test_subtask_1.json": lambda: dstc7(10, "test", answers=False),
    "ubuntu_responses_subtask_1.tsv": lambda: "".join(f"{n}\tC7\t{said(TEST_DIALOGUES + n, 27)}\n" for n in range(10)),
    "train_self_original.txt": lambda: convai2(0, 80, candidates=True),
    "valid_self_original.txt": lambda: convai2(200, 8, candidates=True),
    "valid_self_original_no_cands.txt": lambda: convai2(200, 8, candidates=False),
    "dialogues_train.txt": lambda: daily(0, 80),
    "dialogues_validation.txt": lambda: daily(100, 20),
    "dialogues_test.txt": lambda: daily(200, 20),
    "empatheticdialogues/train.csv": lambda: empathetic(0, 80),
    "empatheticdialogues/valid.csv": lambda: empathetic(100, 20),
    "empatheticdialogues/test.csv": lambda: empathetic(200, 20),
    "data.json": lambda: woz(60),
    "valListFile.txt": lambda: "".join(f"SNG{number}.json\n" for number in range(10)),
    "testListFile.txt": lambda: "".join(f"SNG{number}.json\n" for number in range(10, 20)),
    "2023-04-12_oasst_ready.trees.jsonl.gz": lambda: assistant(200),
    "SemEval2016-Task3-CQA-QL-train-part1.xml": lambda: semeval_2016(0, 90),
    "SemEval2016-Task3-CQA-QL-train-part2.xml": lambda: semeval_2016(0, 90),
    "SemEval2016-Task3-CQA-QL-dev.xml": lambda: semeval_2016(200, 20),
    "CQA-QL-train.xml": lambda: semeval.OLD,
    "CQA-QL-devel.xml": lambda: semeval.OLD.replace("Courier", "Visas"),
    "test_task3_English.xml": lambda: semeval.OLD.replace('"Good"', '"?"').replace("Courier", "Banks"),
    "CQA-QL-test-gold.txt": lambda: "Q1_C1\tGood\nQ1_C2\tBad\nQ1_C3\tGood\n",
    "RC_2018-01.zst": lambda: reddit(200),
}


def write_files(folder: Path) -> None:
    for name, make in FILES.items():
        content = make()
        data = content.encode() if isinstance(content, str) else content
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(COMPRESS.get(Path(name).suffix, bytes)(data))
