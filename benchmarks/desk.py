"""A desk that learns from use: 2,000 chats in order, and how often the right reply comes first.

Of each chat the index offers five replies. The agent takes the right one if it is among them, but
clicks on another one three times in a hundred; else it writes its own, half of the time a reply of
the index in other words, half of the time something new. Each of eight agents is a source. After
every hundred chats `rejoinder learn` runs. Beside it stands the same index without learning. The
chats are made up; with REJOINDER_DATA they are also questions to two public bots, each one once.

The process that keeps the desk is killed at fifty random moments, and goes on with the next chat.
At the end every entry that was acknowledged must be in the log.

    REJOINDER_DATA=DATA python benchmarks/desk.py bi-small

`--cost` instead: milliseconds of feedback, in the library and over HTTP, and how many replies a
second a server gives with and without what it keeps for feedback.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rejoinder
from common import write_result
from rejoinder.conversations import Conversation, read_contexts
from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.learning import learn
from rejoinder.curation.outcomes import Recorder
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE
from serving import build, load, ours, serving

OFFERED = 5
LEARNED_EVERY = 100
WRONG_CLICKS = 0.03
RECOGNISED = 0.5  # of the own texts are replies of the index, mistyped or extended
AGENTS = 8
LAST = 500  # chats by which the desk is measured
THINGS = {
    "order": ["order", "purchase", "stuff i bought", "things i ordered"],
    "parcel": ["parcel", "package", "box", "delivery"],
    "invoice": ["invoice", "bill", "receipt", "statement"],
    "password": ["password", "login", "pin", "credentials"],
    "account": ["account", "profile", "membership", "registration"],
    "address": ["address", "street", "where i live", "place you ship to"],
    "voucher": ["voucher", "coupon", "gift card", "discount code"],
    "subscription": ["subscription", "plan", "monthly payment", "contract"],
    "device": ["device", "phone", "gadget", "machine"],
    "appointment": ["appointment", "booking", "slot", "meeting"],
    "payment": ["payment", "card", "money", "charge"],
    "warranty": ["warranty", "guarantee", "repair", "cover"],
    "newsletter": ["newsletter", "mails from you", "advertising", "mailing list"],
    "ticket": ["ticket", "case", "complaint", "request i made"],
    "seat": ["seat", "table", "chair", "spot"],
    "insurance": ["insurance", "policy", "protection", "claim"],
}
ACTIONS = {
    "cancel": (["cancel", "stop", "get rid of", "call off", "do not want anymore"],
               "Cancelling is possible until the evening of the same day, in the menu {thing}."),
    "change": (["change", "update", "correct", "switch", "is wrong"],
               "Please send us the new details of the {thing}, and we enter them for you."),
    "track": (["where is", "track", "still waiting for", "has not come", "status of"],
              "The state of the {thing} is shown on the page My {thing}, it is renewed hourly."),
    "refund": (["refund", "give me back", "reimburse", "return", "charged twice for"],
               "We pay back what you paid for the {thing} within five working days."),
    "open": (["how do i get", "create", "start", "apply for", "new"],
             "A {thing} is set up in two minutes, under Begin here on our website."),
    "problem": (["broken", "does not work", "error with", "trouble with", "cannot use"],
                "We are sorry. Please describe what happens with the {thing} in one sentence."),
}  # fmt: skip
FRAMES = [
    "{a} my {t}",
    "hi, {a} the {t}?",
    "{t} {a}",
    "i have a question: {a} {t}",
    "{a} {t} please",
    "hello, about the {t}: {a}",
    "can you help, {a} my {t} since monday",
]
OWN_WORDS = [
    "I have asked a colleague, she will call you.",
    "One moment, I am looking into it.",
    "That has been done for you now.",
    "Could you tell me a little more about it?",
]


@dataclass(frozen=True)
class Desk:
    """Replies, and chats in order: each a message and the position of the right reply."""

    name: str
    replies: list[Candidate]
    chats: list[tuple[str, int]]


def main() -> None:
    """Measure, print, write `results/desk.json` or `results/feedback_cost.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="bi-small")
    parser.add_argument("--chats", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--turns", type=int, default=20, help="of each server of --cost")
    parser.add_argument("--candidates", type=int, default=10_000, help="of the index of --cost")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.cost:
        rows = cost(options)
        write_result("feedback_cost", {**vars(options), "rows": rows})
        return
    desks = [made_up(options.chats)]
    if "REJOINDER_DATA" in os.environ:
        desks += public(Path(os.environ["REJOINDER_DATA"]) / "eval" / "faq", options.chats)
    rows = []
    for desk in desks:
        rows.append(measure(desk, options))
        print(json.dumps(rows[-1]), flush=True)
    write_result("desk", {"model": options.model, "kills": options.kills, "rows": rows})


def made_up(count: int, seed: int = 0) -> Desk:
    """Return a desk of 96 replies, and chats in which customers use other words than these."""
    chance = random.Random(seed)
    replies = []
    words = []
    for thing, names in THINGS.items():
        for verbs, answer in ACTIONS.values():
            replies.append(Candidate(answer.format(thing=thing)))
            words.append((names, verbs))
    frequent = [1 / (rank + 5) for rank in range(len(replies))]
    order = chance.sample(range(len(replies)), len(replies))
    chats = []
    for row in chance.choices(order, frequent, k=count):
        names, verbs = words[row]
        frame = chance.choice(FRAMES)
        message = frame.format(a=chance.choice(verbs), t=chance.choice(names))
        chats.append((message + chance.choice(["", ".", "!", " thanks", " asap"]), row))
    return Desk("made up", replies, chats)


def public(folder: Path, count: int) -> list[Desk]:
    """Return the desks of two public bots, whose replies are known by their own texts alone."""
    desks = []
    for name, field in (("cosibot_en", "questions"), ("covid_crowd", "asked")):
        replies: list[Candidate] = []
        chats = []
        for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            chats += [(text, len(replies)) for text in dict.fromkeys(entry[field])]
            replies.append(Candidate(entry["answer"]))
        random.Random(0).shuffle(chats)
        desks.append(Desk(name, replies, chats[:count]))
    return desks


class Remembered(DualEncoder):
    """An encoder that remembers the vectors of conversations: they are learned from many times."""

    name = fingerprint = ""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        self.fingerprint = encoder.fingerprint
        self.name = encoder.name
        self.known: dict[tuple[str, ...], Any] = {}

    def encode_contexts(self, contexts: Sequence[Conversation]) -> Any:
        """Encode what is new."""
        texts = [tuple(each) for each in read_contexts(contexts)]
        new = list(dict.fromkeys(each for each in texts if each not in self.known))
        if new:
            self.known |= dict(zip(new, self.encoder.encode_contexts(new), strict=True))
        return np.stack([self.known[each] for each in texts])

    def encode_responses(self, responses: Sequence[str]) -> Any:
        """Encode."""
        return self.encoder.encode_responses(responses)


def measure(desk: Desk, options: argparse.Namespace) -> dict[str, Any]:
    """Keep a desk with kills, and return how often the right reply was first."""
    encoder = Remembered(rejoinder.load(options.model))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        index = Index.build(encoder, desk.replies, place / "index")
        encoder.encode_contexts([[message] for message, _ in desk.chats])
        before = ranks(index, desk)
        acknowledged = keep(desk, encoder, place, options.kills)
        lines = [json.loads(line) for line in (place / "said").read_text().splitlines()]
        index = Index.open(place / "index", encoder, verify=True)
        written = {entry.id for entry in FeedbackLog(index.folder)}
        lost = [each for each in lines if each["id"] not in written]
        first = {each["chat"]: each["rank"] == 0 for each in lines}
        learned = [first[chat] for chat in range(len(desk.chats) - LAST, len(desk.chats))]
        return {
            "desk": desk.name,
            "replies": len(desk.replies),
            "chats": len(desk.chats),
            "r1_without": float(np.mean([rank == 0 for rank in before[-LAST:]])),
            "r1_learned": float(np.mean(learned)),
            "r5_without": float(np.mean([rank < OFFERED for rank in before[-LAST:]])),
            "kills": acknowledged,
            "acknowledged": len(lines),
            "lost": len(lost),
            "examples": sum(len(reply.learned) for _, reply in index),
        }


def ranks(index: Index, desk: Desk) -> list[int]:
    """Return the rank of the right reply to each message; `OFFERED` and more: not offered."""
    contexts = [[message] for message, _ in desk.chats]
    found = index.search(contexts, OFFERED, ANY_SCORE, distinct=False)
    keys = [text_key(desk.replies[right].text) for _, right in desk.chats]
    shown = [[text_key(reply.text) for reply in replies] for replies in found]
    return [own.index(key) if key in own else OFFERED for key, own in zip(keys, shown, strict=True)]


def keep(desk: Desk, encoder: DualEncoder, place: Path, kills: int) -> int:
    """Keep the desk in processes that are killed; return how many were killed."""
    chance = random.Random(1)
    done = 0
    said = place / "said"
    said.touch()
    killed = 0
    while done < len(desk.chats):
        child = os.fork()
        if child == 0:
            try:
                sit(desk, encoder, place, done)
                os._exit(0)
            finally:
                os._exit(1)
        if killed < kills:
            wanted = done + chance.randint(1, max(1, len(desk.chats) // kills))
            while len(said.read_bytes().splitlines()) < wanted and os.waitpid(
                child, os.WNOHANG
            ) == (0, 0):
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.02))
            try:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                killed += 1
            except (ProcessLookupError, ChildProcessError):
                pass
        elif os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise RuntimeError("the desk ended by itself")
        lines = said.read_text().splitlines()
        if lines and not lines[-1].endswith("}"):  # cut by the kill, so not acknowledged
            said.write_text("".join(f"{line}\n" for line in lines[:-1]))
        done = len(said.read_text().splitlines())
    return killed


def sit(desk: Desk, encoder: DualEncoder, place: Path, first: int) -> None:
    """Answer chats from one on; say of each that it is written once that is acknowledged."""
    index = Index.open(place / "index", encoder)
    log = FeedbackLog(index.folder)
    recorder = Recorder(index, log)
    with (place / "said").open("a", encoding="utf-8") as said:
        for chat in range(first, len(desk.chats)):
            if chat and chat % LEARNED_EVERY == 0:
                learn(index, log)
            chance = random.Random(chat)
            message, right = desk.chats[chat]
            [found] = index.search([[message]], OFFERED, ANY_SCORE, distinct=False)
            positions = [reply.position for reply in found]
            outcome = act(desk, positions, right, chance)
            source = f"agent {chance.randrange(AGENTS)}"
            recorded = recorder.feedback([message], positions, source=source, **outcome)
            rank = positions.index(right) if right in positions else OFFERED
            said.write(json.dumps({"chat": chat, "id": recorded.id, "rank": rank}) + "\n")
            said.flush()


def act(desk: Desk, positions: Sequence[int], right: int, chance: random.Random) -> dict[str, Any]:
    """Return what the agent does with the replies that it is offered."""
    if chance.random() < WRONG_CLICKS:
        return {"chosen": chance.choice([at for at in positions if at != right])}
    if right in positions:
        return {"chosen": right}
    if chance.random() < RECOGNISED:
        return {"text": f"Thanks for waiting. {desk.replies[right].text}"}
    return {"text": chance.choice(OWN_WORDS)}


# --- What it costs


def cost(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return milliseconds of feedback, and replies a second with and without what it needs."""
    import chitchat_dataset

    texts = [text for text in dict.fromkeys(chitchat_dataset.MessageDataset()) if text.strip()]
    contexts = [texts[at : at + 3] for at in range(0, 9000, 3)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "index")
        build(texts[: options.candidates], place)
        rows += in_the_library(Index.open(place), contexts[:1000])
        with serving(ours(place)) as server:
            asyncio.run(load(server.port, itertools.cycle(contexts), 64, 2))
            rows.append(over_http(server.port, contexts[:1000]))
            with serving(without(place)) as other:
                rows.append(compare(server.port, other.port, contexts, options.turns))
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows


def compare(port: int, other: int, contexts: Sequence[Sequence[str]], turns: int) -> dict[str, Any]:
    """Return replies a second of two servers that are open at once, in short turns."""
    asked = {each: itertools.cycle(contexts) for each in (port, other)}
    asyncio.run(load(other, asked[other], 64, 2))
    loads = [
        [asyncio.run(load(each, own, 64, 2)).facts()["per_second"] for each, own in asked.items()]
        for _ in range(turns)
    ]
    own, others = zip(*loads, strict=True)
    return {
        "what": "replies a second",
        "with": statistics.median(own),
        "without": statistics.median(others),
        "ratio": statistics.median(one / two for one, two in loads),
    }


def in_the_library(index: Index, contexts: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Return milliseconds of feedback: a choice, and an own text."""
    recorder = Recorder(index, FeedbackLog(index.folder))
    rows = []
    for name in ("a choice", "an own text"):
        times = []
        for row, messages in enumerate(contexts):
            own: dict[str, Any] = {"chosen": 3}
            if name == "an own text":
                own = {"text": f"{messages[0]} {row}"}
            begin = time.perf_counter()
            source = f"agent {row % 8}"
            recorder.feedback(messages, [1, 2, 3, 4, 5], source=source, **own)
            times.append(1000 * (time.perf_counter() - begin))
        rows.append({"what": f"Recorder.feedback, {name}", **_spread(times)})
    return rows


def over_http(port: int, contexts: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return milliseconds of `POST /v1/feedback` of one client."""
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", port)
    times = []
    for messages in contexts:
        body = json.dumps(
            {"messages": messages, "offered": [1, 2, 3, 4, 5], "chosen": 3, "source": "a"}
        )
        begin = time.perf_counter()
        connection.request("POST", "/v1/feedback", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        times.append(1000 * (time.perf_counter() - begin))
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}")
    connection.close()
    return {"what": "POST /v1/feedback", **_spread(times)}


def _spread(times: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(times, [50, 99]).tolist()
    return {"p50_ms": p50, "p99_ms": p99}


def without(place: str) -> list[str]:
    """Return the command of a server that keeps no answers for feedback."""
    code = (
        "import sys; from rejoinder.serving import recent_answers; "
        "from rejoinder.cli.start import main; "
        "recent_answers.RecentAnswers.add = lambda *_: ''; sys.argv[0] = 'rejoinder'; main()"
    )
    return [sys.executable, "-c", code, *ours(place)[3:]]


if __name__ == "__main__":
    main()
