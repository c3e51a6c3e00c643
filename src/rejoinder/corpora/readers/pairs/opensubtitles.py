"""OpenSubtitles: each line of a film's subtitles answers the line before it.

DATA19, section 3.2, and its code. In OPUS's file of a language films follow each other without a
mark. DATA19 cut it with `split -a 3 -l 100000` and split by the parts' names (lines-aaa, ...); so
is a longer file here. docs/choices.md lists where we differ.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.lines import Reading, open_lines, strip_compression
from rejoinder.corpora.schema import Example
from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern

# A word and a colon where a sentence begins; neither a time (10:30) nor an address (http://).
_SPEAKER = search_pattern(r"(?:^|(?<=[.!?]\s))(?!\d++:\d)\w++:(?!//)")
_BRACKETED = search_pattern(r"[\[(][^\])]*+(?:[\])]|\Z)")
_EDGES = " \t-\N{EN DASH}\N{EM DASH}"
MIN_LENGTH = 9  # characters of a response and of the line before it
MAX_LENGTH = 127
SHARD_LINES = 100_000  # of a thread, where a file has more lines than that: it holds many films


def read_opensubtitles(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Read the examples of one film's subtitles, or of the one file of a language."""
    if reading.history is None:
        raise InputError(
            "opensubtitles: a film is one conversation of a thousand lines; give --history N, as 10"
        )
    name = reading.file_name or strip_compression(path).name
    is_cut = _has_many_films(path)
    earlier: list[str] = []
    previous = 0
    first = ""  # line of the file
    for number, line in open_lines(path, reading):
        if number <= 2:
            _check_plain_text(path, first, line)
            first = line.strip()
        if is_cut and (number - 1) // SHARD_LINES != (previous - 1) // SHARD_LINES:
            name = shard_name((number - 1) // SHARD_LINES)
            earlier.clear()
        elif number != previous + 1:  # the next line answers no bad line that was skipped
            earlier.clear()
        previous = number
        if not line or line.isspace():
            continue
        reading.lines += 1
        text = clean_line(line)
        if not text:
            reading.drop("lines of nothing that is said")
            continue
        if earlier and (reason := fault_of_lines(earlier[-1], text)):
            reading.drop(reason)
        elif earlier:
            yield Example(reading.newest(earlier), text, f"{name}:{number}", name, "opensubtitles")
        earlier.append(text)
        del earlier[: -2 - reading.history]  # one more than is kept shows that the context is cut


def _check_plain_text(path: Path, first: str, line: str) -> None:
    """Raise InputError if a file begins as XML or SubRip does; `first` is the line before."""
    if line.lstrip().startswith(("<?xml", "<document")):
        raise InputError(
            f"{path} is XML; OPUS's plain text is read, one subtitle line a line (mono/en.txt.gz)"
        )
    if first.isdigit() and "-->" in line:
        raise InputError(
            f"{path} is SubRip (.srt), with numbers and times; plain text is read, one subtitle "
            "line a line: remove the lines of numbers and times, or take OPUS's mono/en.txt.gz"
        )


def clean_line(line: str) -> str:
    """Return what is said in a line of subtitles. The time is linear in its length."""
    end = max(line.rfind(")"), line.rfind("]")) + 1
    if end:  # so that every bracket searched from has its end
        line = _BRACKETED.sub("", line[:end]) + line[end:]
    line = line.strip(_EDGES)
    if ":" in line:
        line = _SPEAKER.sub("", line)
    return " ".join(line.split()).strip(_EDGES)


def fault_of_lines(context: str, response: str) -> str:
    """Return why the pair is left out, or nothing."""
    if min(len(context), len(response)) < MIN_LENGTH:
        return f"pairs with a line of fewer than {MIN_LENGTH} characters"
    too_long = max(len(context), len(response)) > MAX_LENGTH
    return f"pairs with a line of more than {MAX_LENGTH} characters" if too_long else ""


def shard_name(number: int) -> str:
    """Return the name of part 0, 1, ..., as `split -a 3` gives it: lines-aaa, lines-aab, ..."""
    letters = ""
    while number or len(letters) < 3:
        number, letter = divmod(number, 26)
        letters = string.ascii_lowercase[letter] + letters
    return f"lines-{letters}"


def _has_many_films(path: Path) -> bool:
    """Return whether a file has more lines than a film; a pipe, which is read once, counts so."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return True
    # Faults are reported by whoever reads the file in earnest.
    return any(number > SHARD_LINES for number, _ in open_lines(path, Reading(skip_bad=True)))


OPENSUBTITLES = Corpus(
    name="opensubtitles",
    title="Consecutive lines of film and television subtitles, from OPUS.",
    reads="OPUS's monolingual plain text (mono/en.txt.gz), its parts, or text files of one film "
    "each; a line a line",
    licence="not stated; OPUS asks for a link to opensubtitles.org and a citation of Lison and "
    "Tiedemann 2016",
    origin="https://opus.nlpl.eu/OpenSubtitles-v2018.php, the plain text under the language's code",
    expected="English, v2018: 4,415 threads, 316,891,717 examples, 33,240,156 of them test "
    "(DATA19)",
    read=read_opensubtitles,
)
