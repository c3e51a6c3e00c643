"""Replies to index, read from files in the forms that people have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.lines import Reading, strip_compression
from rejoinder.corpora.readers.form import Markup
from rejoinder.corpora.registry.recognition import find_form, inspect
from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.splits import Split
from rejoinder.errors import InputError

_EXAMPLES = frozenset(("context", "response"))  # columns of Parquet


def distinct(candidates: Iterable[Candidate], known: Iterable[str] = ()) -> Iterator[Candidate]:
    """Yield the first of candidates with equal texts, and none whose text is known already."""
    seen = set(known)
    for candidate in candidates:
        if candidate.text not in seen:
            seen.add(candidate.text)
            yield candidate


def read_candidates(
    path: str | Path,
    split: Split | None = None,
    choice: Choice | None = None,
    reading: Reading | None = None,
) -> Iterator[Candidate]:
    """Yield the replies of a file, or the distinct responses of examples: of one `split`, or all.

    The form is found by content; `choice` decides. What was understood, and how many entries were
    left out, is added to `reading`. InputError names file, line and reason.
    """
    path = Path(path)
    choice = choice or Choice()
    reading = reading if reading is not None else Reading()
    if not path.exists():
        raise InputError(f"{path} does not exist; name a file of replies or a data folder")
    if not choice.form and _holds_examples(path):
        # With pyarrow, for which a server need not wait.
        from rejoinder.corpora.forms.examples import read_examples

        if untaken := choice.untaken(frozenset()):
            raise InputError(f"{path} holds examples, which take no {untaken}; leave it out")
        reading.notes.append(f"{path}: the distinct responses of examples")
        return distinct(Candidate(example.response) for example in read_examples(path, split))
    if split is not None:
        raise InputError(
            f"{path} is not a folder of examples, so it has no {split} split; leave --split out"
        )
    form, sample = find_form(path, choice, "replies")
    return _noted(form.read(sample, choice, reading), f"{path}: {form.title}", reading)


def _holds_examples(path: Path) -> bool:
    """Return whether a folder, or Parquet, is of examples and not in a form of replies."""
    if path.is_dir():
        return any(path.glob("*.parquet")) or not any(path.iterdir())
    if strip_compression(path).suffix.lower() != ".parquet":
        return False
    return set(inspect(path, Choice()).columns) >= _EXAMPLES


def _noted(candidates: Iterator[Candidate], title: str, reading: Reading) -> Iterator[Candidate]:
    """Yield the replies; note their form, unless its reader does, and texts with markup in them."""
    count = len(reading.notes)
    markup = Markup("replies")
    for number, candidate in enumerate(candidates):
        if number == 0 and len(reading.notes) == count:
            reading.notes.append(title)
        markup.look(candidate.text)
        yield candidate
    if len(reading.notes) == count:
        reading.notes.append(title)
    reading.notes += markup.notes()
