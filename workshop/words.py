"""Write `src/rejoinder/text/words.txt`: English words, the most frequent first, for the speller.

`python -m workshop.words OPEN TARGET`: OPEN is a folder of dialogues under open licences, one a
line of zstandard-compressed JSONL. Counted are words in small letters of edited or spoken texts
alone, since chats hold the typos that the list is to find. Of each source a word counts at most
as often as in a million words.
"""

from __future__ import annotations

import argparse
import io
import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import zstandard

EDITED = (
    "gutenberg_dialogue",
    "crd3_critical_role",
    "changelog_podcasts",
    "schema_guided_dialogue",
    "qmsum_meetings",
    "gutenberg_plays",
    "gutenberg_dialogue_singlequote",
)
LINES = 60_000  # of a source
LEAST = 5  # times in all, in two sources or more
MOST = 40_000
_WORD = re.compile(r"(?<![\w'])[a-z]{2,24}(?:'[a-z]{1,3})?(?![\w'])")


def count(path: Path) -> Counter[str]:
    """Return how often each word of small letters is in a file."""
    found: Counter[str] = Counter()
    with path.open("rb") as raw:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(raw)
        for number, line in enumerate(io.TextIOWrapper(reader, encoding="utf-8")):
            if number == LINES:
                break
            record = json.loads(line)
            for turn in record["turns"][max(0, record.get("from", 1) - 1) :]:
                found.update(_WORD.findall(turn if isinstance(turn, str) else turn["text"]))
    return found


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("open", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args()
    total: Counter[str] = Counter()
    shares: defaultdict[str, float] = defaultdict(float)
    sources: Counter[str] = Counter()
    for path in sorted(given.open.glob("*.zst")):
        if path.name.split(".")[0] in EDITED:
            found = count(path)
            size = sum(found.values())
            total += found
            for word, times in found.items():
                shares[word] += times / size
            sources.update(set(found))
            print(path.name, size, len(found), flush=True)
    ranked = sorted(shares, key=lambda word: -shares[word])
    kept = [word for word in ranked if total[word] >= LEAST and sources[word] > 1][:MOST]
    head = "# Frequent English words, the most frequent first: counted by workshop/words.py.\n"
    given.target.write_text(head + "\n".join(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
