"""Write `src/rejoinder/text/words/words.txt`: English words by frequency, for the speller.

`python -m workshop.words OPEN TARGET`: OPEN is a folder of dialogues under open licences, one a
line of zstandard-compressed JSONL. Counted are words of edited or spoken texts alone, since chats
hold the typos that the list is to find. Of each source a word counts at most as often as in a
million words.

Behind the frequent words, which are counted in small letters, rarer ones and names follow by their
letters, without those that a likely slip makes of a much more frequent word.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from rejoinder.text.words.slips import NEAR_COST, slip_cost
from rejoinder.text.words.word_list import WordList

EDITED = (
    "gutenberg_dialogue",
    "crd3_critical_role",
    "changelog_podcasts",
    "schema_guided_dialogue",
    "qmsum_meetings",
    "gutenberg_plays",
    "gutenberg_dialogue_singlequote",
)
FURTHER = ("topical_chat_devtest", "multiwoz21_valtest", "dstc11_track5_val")  # for rare words
LINES = 60_000  # of a source, for frequent words
LEAST = 5  # times in all, in two sources or more
LEAST_RARE = 3  # letters
MOST = 40_000
PROPOSED = 15_000  # frequent words of which a typo may be one
LIKELY = 300  # times as frequent a word is as a rare typo of it, by a likely slip
_WORD = re.compile(r"(?<![\w'])[A-Za-z]?[a-z]{1,23}(?:'[a-z]{1,3})?(?![\w'])")
_SMALL = re.compile(r"[a-z]{2,24}(?:'[a-z]{1,3})?")
_RARE = re.compile(rf"[a-z]{{{LEAST_RARE},24}}")


@dataclass
class Counts:
    """How often words are in texts, and in how many sources."""

    total: Counter[str] = field(default_factory=Counter)
    shares: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    sources: Counter[str] = field(default_factory=Counter)

    def add(self, found: Mapping[str, int]) -> None:
        """Add the words of a source."""
        size = sum(found.values())
        self.total.update(found)
        for word, times in found.items():
            self.shares[word] += times / size
        self.sources.update(set(found))

    def kept(self) -> list[str]:
        """Return the words that are not too rare, the most frequent first."""
        ranked = sorted(self.shares, key=lambda word: -self.shares[word])
        return [word for word in ranked if self.total[word] >= LEAST and self.sources[word] > 1]


def count(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Return how often each word is in a file.

    First those of small letters in its first `LINES`, then all words in all of it.
    """
    small: Counter[str] = Counter()
    every: Counter[str] = Counter()
    with path.open("rb") as raw:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(raw)
        for number, line in enumerate(io.TextIOWrapper(reader, encoding="utf-8")):
            record = json.loads(line)
            for turn in record["turns"][max(0, record.get("from", 1) - 1) :]:
                words = _WORD.findall(turn if isinstance(turn, str) else turn["text"])
                every.update(map(str.lower, words))
                if number < LINES:
                    small.update(filter(_SMALL.fullmatch, words))
    return small, every


def typos(words: Iterable[str], frequent: list[str], total: Mapping[str, int]) -> set[str]:
    """Return the words that a likely slip makes of a much more frequent one."""
    known = WordList(frequent)
    return {
        word
        for word in words
        for meant, _ in known.within(word, 1)
        if slip_cost(word, meant) <= NEAR_COST and total[meant] >= LIKELY * total[word]
    }


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("open", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args()
    small = Counts()
    every = Counts()
    for path in sorted(given.open.glob("*.zst")):
        name = path.name.split(".")[0]
        if name in EDITED or name in FURTHER:
            found, names = count(path)
            every.add(names)
            if name in EDITED:
                small.add(found)
            print(path.name, len(found), len(names), flush=True)
    listed = small.kept()[:MOST]
    wanted = {word for word in listed if word.endswith("eed")}
    proposed = [word for word in listed[:PROPOSED] if len(word) >= LEAST_RARE]
    rare = sorted(set(filter(_RARE.fullmatch, every.kept())).difference(listed))
    wrong = typos(rare, proposed, every.total)
    wrong.update(word for word in rare if f"{word}d" in wanted)  # "bree" is no verb of "breed"
    head = "# Frequent English words, the most frequent first: counted by workshop/words.py.\n"
    below = "# Rarer words and names of such texts, by their letters.\n"
    frequent = "\n".join(listed)
    rest = textwrap.wrap(" ".join(word for word in rare if word not in wrong), 118)
    text = f"{head}{frequent}\n{below}" + "\n".join(rest) + "\n"
    given.target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
