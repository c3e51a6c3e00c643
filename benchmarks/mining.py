"""Canned replies out of old chats: how many messages of later chats they cover.

Replies are mined from the first half of some chats, and a list made by hand, of the same size, is
compared on the second half. For generated chats that list holds the generator's own templates, the
most frequent ones; which template a message is of is known. For real ones it is the best list for
somebody who has read the first half and judges as the judge does: a message is covered if MiniLM,
which mining does not use, gives it and a reply of the list a cosine of 0.6 (it says the same) or
0.7 (in nearly the same words). The bound is the best list that the second half itself gives.

    REJOINDER_DATA=DATA python benchmarks/mining.py
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from common import write_result
from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.corpora.schema import Candidate, Example
from rejoinder.corpora.sent_replies import ReplyMatcher
from rejoinder.curation.forms import mask
from rejoinder.curation.mining import Mining, mine_examples
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import InputError

SIZES = (10, 20, 40, 100, 200)
REAL = ("taskmaster4_coffee", "multiwoz21_valtest", "dstc11_track5_val")
JUDGE = "minilm"
LEVELS = (0.6, 0.7)
WINDOW = 1 << 27  # of compressed files
_VALUES = {
    "name": ["Anna", "Jo", "Mr Smith", "Fatima", "Lee", "Marta"],
    "city": ["Berlin", "Austria", "New Zealand", "Porto"],
    "email": ["a.smith@example.com", "jo@example.org"],
    "phone": ["+44 20 7946 0123", "+1 212 555 0199"],
}
_BEFORE = ["", "", "", "Hi! ", "Hello, ", "Thanks for getting in touch. "]
_AFTER = ["", "", "", " Best, Tom", " :)", " Let me know if that helps."]


def main() -> None:
    """Print a line for each model and kind of chats; write `results/mining.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=["bi-small", "convert-small"], metavar="MODEL")
    parser.add_argument("--chats", type=int, default=4000, metavar="N", help="generated ones")
    parser.add_argument("--speed", type=int, default=100_000, metavar="N", help="messages, timed")
    options = parser.parse_args()
    folder = os.environ.get("REJOINDER_DATA", "")
    if not folder:
        raise InputError("REJOINDER_DATA is not set; it names the folder that has `open`")
    judge = open_encoder(JUDGE)
    rows = []
    seconds = {}
    for name in options.models:
        model = open_encoder(name)
        measured = [generated(model, options.chats)]
        for chats in REAL:
            path = Path(folder) / "open" / f"{chats}.jsonl.zst"
            measured.append(real(model, judge, chats, path))
        for row in measured:
            print(json.dumps({"model": name, **row}), flush=True)
            rows.append({"model": name, **row})
        seconds[name] = speed(model, options.speed)
    write_result("mining", {"judge": JUDGE, "rows": rows})
    write_result("mining_speed", {"rows": seconds})


# --- Generated chats ------------------------------------------------------------------------------


def templates() -> list[list[str]]:
    """Return the wordings of each reply of the invented desk."""
    text = Path(__file__).with_name("desk_replies.txt").read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [block.splitlines() for block in lines.strip().split("\n\n")]


def desk_chats(count: int, seed: int = 0) -> Iterator[tuple[Example, int | None]]:
    """Yield messages of agents, and the number of the template that each was made of.

    How often a template is used falls with its number; a fifth of the messages belong to none.
    """
    draw = random.Random(seed)
    others = other_messages()
    wordings = templates()
    weights = [1 / (1 + number) for number in range(len(wordings))]
    for number in range(count):
        if draw.random() < 0.2:
            yield Example(("Hello?",), draw.choice(others), thread=str(number)), None
            continue
        [chosen] = draw.choices(range(len(wordings)), weights)
        text = _filled(draw.choice(wordings[chosen]), draw)
        text = draw.choice(_BEFORE) + _mistyped(text, draw) + draw.choice(_AFTER)
        yield Example((f"question {chosen}",), text, thread=str(number)), chosen


def _filled(text: str, draw: random.Random) -> str:
    values = {
        **{name: draw.choice(some) for name, some in _VALUES.items()},
        "order": draw.choice([f"#{draw.randint(10**5, 10**6)}", f"A-{draw.randint(1000, 9999)}"]),
        "date": draw.choice(
            [f"{draw.randint(1, 28)} May", "Monday", f"{draw.randint(1, 12)}/03/2024"]
        ),
        "time": f"{draw.randint(7, 19)}:{draw.choice(['00', '30'])}",
        "number": str(draw.randint(2, 30)),
        "amount": f"${draw.randint(5, 90)}.{draw.choice(['00', '50', '99'])}",
    }
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _mistyped(text: str, draw: random.Random) -> str:
    """Drop a letter in one of forty words."""
    words = text.split(" ")
    for row, word in enumerate(words):
        if len(word) > 4 and word.isalpha() and draw.random() < 1 / 40:
            at = draw.randrange(1, len(word) - 1)
            words[row] = word[:at] + word[at + 1 :]
    return " ".join(words)


def other_messages() -> list[str]:
    """Return messages that no canned reply fits: of people who chat."""
    import chitchat_dataset

    texts = dict.fromkeys(chitchat_dataset.MessageDataset())
    return [text for text in texts if len(text.split()) > 3]


def generated(model: DualEncoder, count: int) -> dict[str, Any]:
    """Return what mined replies and the generator's templates cover of later messages."""
    made = list(desk_chats(count))
    first = made[: count // 2]
    later = Counter(number for _, number in made[count // 2 :])
    mined = mine_examples([example for example, _ in first], model, most=SIZES[-1])
    wordings = templates()
    known = [(number, Candidate(text)) for number, some in enumerate(wordings) for text in some]
    matcher = ReplyMatcher(known)
    numbers = [matcher.find(reply.text) for reply in mined.replies]
    total = later.total()
    row: dict[str, Any] = {"chats": "generated", "messages": len(first), "sizes": {}}
    for size in sizes_of(mined, len(wordings)):
        own = sum(later[number] for number in {*numbers[:size]} - {None})
        hand = sum(later[number] for number in range(min(size, len(wordings))))
        row["sizes"][str(size)] = {"template": _compared(own / total, hand / total)}
    return row


# --- Real chats -----------------------------------------------------------------------------------


def read_messages(path: Path) -> list[list[Example]]:
    """Return the messages of agents, who answer, by chat; of chats that begin alike the first."""
    chats: dict[str, list[Example]] = {}
    with path.open("rb") as raw:
        stream = zstandard.ZstdDecompressor(max_window_size=WINDOW).stream_reader(raw)
        for line in io.TextIOWrapper(stream, encoding="utf-8"):
            turns = json.loads(line)["turns"]
            own = [
                Example(tuple(turns[:row]), turns[row], thread=turns[0])
                for row in range(1, len(turns), 2)
            ]
            if len(own) > len(chats.get(turns[0], [])):
                chats[turns[0]] = own
    return list(chats.values())


def real(model: DualEncoder, judge: DualEncoder, name: str, path: Path) -> dict[str, Any]:
    """Return what mined replies cover of the second half, and what the best lists do."""
    chats = read_messages(path)
    half = len(chats) // 2
    first = [example for chat in chats[:half] for example in chat]
    later = Counter(mask(example.response) for chat in chats[half:] for example in chat)
    mined = mine_examples(first, model, most=SIZES[-1])
    counts, vectors = judged(judge, later)
    own_counts, own = judged(judge, Counter(mask(example.response) for example in first))
    cosines = vectors @ encoded(judge, [mask(reply.text) for reply in mined.replies]).T
    row: dict[str, Any] = {"chats": name, "messages": len(first), "sizes": {}}
    for level in LEVELS:
        by_hand = vectors @ own[best_cover(own, own_counts, level, SIZES[-1])].T
        bound = vectors @ vectors[best_cover(vectors, counts, level, SIZES[-1])].T
        for size in sizes_of(mined, SIZES[-1]):
            shares = [
                float(counts @ (some[:, :size] >= level).any(axis=1) / counts.sum())
                for some in (cosines, by_hand, bound)
            ]
            row["sizes"].setdefault(str(size), {})[str(level)] = {
                **_compared(*shares[:2]),
                "bound": round(shares[2], 3),
            }
    return row


def judged(judge: DualEncoder, texts: Counter[str]) -> tuple[FloatArray, FloatArray]:
    """Return how often each text occurs, (n,), and the judge's vectors, (n, d)."""
    return np.array(list(texts.values()), dtype=np.float32), encoded(judge, list(texts))


def best_cover(vectors: FloatArray, counts: FloatArray, limit: float, most: int) -> list[int]:
    """Return the rows of a greedy cover: the texts that are like most messages."""
    near = (vectors @ vectors.T >= limit).astype(np.float32)
    left = counts.copy()
    chosen = []
    for _ in range(most):
        best = int((near @ left).argmax())
        left[near[best] > 0] = 0
        chosen.append(best)
    return chosen


def encoded(model: DualEncoder, texts: Sequence[str]) -> FloatArray:
    """Return unit vectors (n, d) of texts."""
    parts = [
        np.asarray(model.encode_responses(list(texts[start : start + 512])))
        for start in range(0, len(texts), 512)
    ]
    return unit_rows(np.concatenate(parts).astype(np.float32))


def sizes_of(mined: Mining, largest: int) -> list[int]:
    """Return the sizes of lists that are compared."""
    return [size for size in SIZES if size <= min(len(mined.replies), largest)]


def _compared(mined: float, hand: float) -> dict[str, float]:
    return {"mined": round(mined, 3), "by_hand": round(hand, 3), "share": round(mined / hand, 3)}


def speed(model: DualEncoder, count: int) -> dict[str, Any]:
    """Return the seconds and the memory that mining takes."""
    examples = (example for example, _ in desk_chats(count, seed=2))
    start = time.monotonic()
    mined = mine_examples(examples, model)
    return {
        "messages": mined.messages,
        "seconds": round(time.monotonic() - start, 1),
        "replies": len(mined.replies),
        "most_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


if __name__ == "__main__":
    main()
