"""Dumps like Reddit's monthly ones, for benchmarks, the same for a seed.

Words are invented, in threads of realistic shape. A comment is a line of JSON of about 1 KB with
the fields of a dump of 2018, in the order in which comments were written: hundreds of threads go on
at the same time. Sizes of threads are heavy-tailed (most end after a few comments, the largest have
tens of thousands), a few threads are one deep chain, some bodies are deleted or removed, some
parents are missing, a few lines stand there twice. About a fifth of the comments give an example,
as in DATA19.

    python benchmarks/reddit_dump.py --comments 100000 -o dump
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

import zstandard

LARGEST_THREAD = 40_000
LIFETIME = 20_000.0
"""Seconds that a thread goes on, about."""
THREADS_PER_SECOND = 0.25
WORDS_OF_RIVER = 200_000
START = 1_514_764_800
"""First second of January 2018."""
DELETED, REMOVED, MISSING, TWICE, CHAINS = 0.055, 0.02, 0.015, 0.0005, 0.0002

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_TRIPLES = [a + b + c for a in _DIGITS for b in _DIGITS for c in _DIGITS]
_SPECIALS = (
    ("https://www.example.org/a/b?c=1&amp;d=2"),
    "[this one](https://example.org/page)",
    "&gt;",
    "**really**",
    ("\u2019tis"),
    "caf\u00e9",
    "\U0001f602",
    "/r/pics",
    "100,000",
    "\u2014",
    '"quoted"',
    "e.g.",
)


def main() -> None:
    """Write the dump files that the options ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comments", type=int, default=100_000)
    parser.add_argument(
        "--files", type=int, default=1, help="months over which the comments are spread"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for RC_*.zst")
    options = parser.parse_args()
    for path in write_dump(options.output, options.comments, options.files, options.seed):
        print(path)


def write_dump(folder: Path, comments: int, files: int = 1, seed: int = 0) -> list[Path]:
    """Write `files` months of comments, `RC_2018-01.zst` and so on, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    lines, paths = dump_lines(seed), []
    for month in range(files):
        paths.append(folder / f"RC_{2018 + month // 12}-{month % 12 + 1:02}.zst")
        with zstandard.open(paths[-1], "wb") as file:
            for line in itertools.islice(
                lines, comments * (month + 1) // files - comments * month // files
            ):
                file.write(line)
    return paths


def dump_lines(seed: int = 0) -> Iterator[bytes]:
    """Comments without end, in order of time."""
    luck, writer = random.Random(seed), _Writer(random.Random(f"{seed} text"))
    threads: list[tuple[float, int, _Thread]] = []  # a heap by the time of the next comment
    begin, comment, started = 0.0, 0, 0
    while True:
        while not threads or begin < threads[0][0]:
            started += 1
            thread = _Thread(started, luck)
            heapq.heappush(threads, (begin + luck.expovariate(thread.rate), thread.number, thread))
            begin += luck.expovariate(THREADS_PER_SECOND)
        now, place, thread = heapq.heappop(threads)
        parent = thread.pick_parent(luck)
        comment += 1
        thread.comments.append(comment)
        if len(thread.comments) < thread.size:
            heapq.heappush(threads, (now + luck.expovariate(thread.rate), place, thread))
        if luck.random() >= MISSING:
            line = writer.comment(thread, comment, parent, int(START + now))
            yield line
            if luck.random() < TWICE:
                yield line


class _Thread:
    """A thread that goes on: how large it becomes, how fast, and its comments so far."""

    def __init__(self, number: int, luck: random.Random) -> None:
        self.number = number
        self.size = min(LARGEST_THREAD, int(2.5 * luck.paretovariate(1.15)))
        self.rate = self.size / LIFETIME
        self.chain = luck.random() < CHAINS
        self.subreddit = int(3000 * luck.random() ** 3)
        self.comments: list[int] = []
        if self.chain:
            self.size = max(self.size, 2000)

    def pick_parent(self, luck: random.Random) -> int | None:
        """The comment that the next one answers, or None for the submission itself."""
        count = len(self.comments)
        if not count or (not self.chain and luck.random() < 0.35):
            return None
        # Recent comments are answered more often: that makes both wide and deep trees.
        back = 0 if self.chain else int(count * luck.random() ** 3)
        return self.comments[count - 1 - back]


class _Writer:
    """Puts comments into words."""

    def __init__(self, luck: random.Random) -> None:
        self._luck = luck
        self._river = _river(luck)
        self._authors = [
            _word(luck, 2 + int(3 * luck.random())).strip(".") + str(int(900 * luck.random()))
            for _ in range(20_000)
        ]
        self._authors[:3] = ["AutoModerator", "RemindMeBot", "sneakpeekbot"]

    def _text(self, median: float, spread: float) -> str:
        """Some words, escaped for JSON; their number is log-normal."""
        count = max(1, min(1500, int(math.exp(self._luck.gauss(math.log(median), spread)))))
        start = int((WORDS_OF_RIVER - count) * self._luck.random())
        return " ".join(self._river[start : start + count])

    def comment(self, thread: _Thread, number: int, parent: int | None, time: int) -> bytes:
        """One line of RC_*."""
        chance = self._luck.random()
        author, body = self._authors[int(20_000 * self._luck.random() ** 2)], self._text(12.0, 1.15)
        if chance < DELETED:
            author = body = "[deleted]"
        elif chance < DELETED + REMOVED:
            body = "[removed]"
        above = f"t3_{_link(thread.number)}" if parent is None else f"t1_{_id(parent)}"
        return (
            f'{{"author":"{author}","author_flair_background_color":null,'
            f'"author_flair_css_class":null,'
            f'"author_flair_richtext":[],"author_flair_template_id":null,"author_flair_text":null,'
            f'"author_flair_text_color":null,"author_flair_type":"text",'
            f'"author_fullname":"t2_{_id(hash_of(author))}",'
            f'"body":"{body}","can_gild":true,"can_mod_post":false,'
            f'"collapsed":false,"collapsed_reason":null,'
            f'"controversiality":0,"created_utc":{time},"distinguished":null,'
            f'"edited":false,"gilded":0,"gildings":{{"gid_1":0,"gid_2":0,"gid_3":0}},'
            f'"id":"{_id(number)}","is_submitter":false,'
            f'"link_id":"t3_{_link(thread.number)}","no_follow":true,"parent_id":"{above}",'
            f'"permalink":"/r/sub{thread.subreddit}/comments/{_link(thread.number)}'
            f'/some_words_of_the_title/{_id(number)}/",'
            f'"removal_reason":null,"retrieved_on":{time + 2_000_000},'
            f'"score":{int(1 / (chance + 0.001))},'
            f'"send_replies":true,"stickied":false,"subreddit":"sub{thread.subreddit}",'
            f'"subreddit_id":"t5_{_TRIPLES[thread.subreddit]}",'
            f'"subreddit_name_prefixed":"r/sub{thread.subreddit}",'
            f'"subreddit_type":"public"}}\n'
        ).encode()


def hash_of(name: str) -> int:
    """A number for a name that is the same in every process."""
    return sum((place + 1) * ord(letter) * 7919 for place, letter in enumerate(name))


def _id(number: int) -> str:
    return f"d{_TRIPLES[number // 46_656 % 46_656]}{_TRIPLES[number % 46_656]}"


def _link(number: int) -> str:
    return f"7{_TRIPLES[number // 46_656 % 46_656]}{_TRIPLES[number % 46_656]}"


def _river(luck: random.Random) -> list[str]:
    """Return words in sequence, each escaped for JSON as the dumps are (nothing but ASCII)."""
    vocabulary = [_word(luck, 1 + min(4, rank // 400)) for rank in range(8_000)]
    words = []
    for _ in range(WORDS_OF_RIVER):
        word = vocabulary[int(len(vocabulary) ** luck.random()) - 1]
        chance = luck.random()
        if chance < 0.01:
            word = _SPECIALS[int(len(_SPECIALS) * luck.random())]
        elif chance < 0.12:
            word += ".,!?"[int(4 * luck.random())]
        elif chance < 0.125:
            word += "\n\n" + word.capitalize()
        words.append(json.dumps(word)[1:-1])
    return words


def _word(luck: random.Random, syllables: int) -> str:
    return (
        "".join(
            "bcdfghklmnprstvw"[int(16 * luck.random())] + "aeiou"[int(5 * luck.random())]
            for _ in range(syllables)
        )
        + "nstrdly"[int(7 * luck.random())]
    )


if __name__ == "__main__":
    main()
