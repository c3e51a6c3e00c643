"""The file of mined replies: a table, or JSON lines."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from rejoinder.corpora.readers.answers.question_cells import join_questions
from rejoinder.curation.mining import MinedReply, Mining
from rejoinder.errors import InputError
from rejoinder.files import atomic_file


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise InputError if replies cannot be written to a path."""
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise InputError(f"{path}: replies are written as .csv or .jsonl; name such a file")
    if path.exists() and not overwrite:
        raise InputError(f"{path} is there; give --overwrite, or another name")


def write_replies(mining: Mining, path: Path, *, overwrite: bool = True) -> None:
    """Write replies as a table (.csv) or as JSON lines, whole or not at all.

    A cell of the table that a spreadsheet would take for a formula begins with a space.
    InputError: without `overwrite` there is such a file by now, as of another `mine`.
    """
    with (
        atomic_file(path) as part,
        part.open("w", encoding="utf-8", newline="") as file,
    ):
        if path.suffix.lower() == ".csv":
            table = csv.writer(file)
            table.writerow(("text", "count", "covered", "examples", "wordings"))
            table.writerows(_cells(reply) for reply in mining.replies)
        else:
            for reply in mining.replies:
                file.write(json.dumps(reply.to_json(), ensure_ascii=False) + "\n")
        check_output(path, overwrite=overwrite)


def _cells(reply: MinedReply) -> tuple[str, int, str, str, str]:
    """Return the cells of a reply; of its conversations the newest messages, one a line."""
    questions = join_questions([" ".join(context[-1].split()) for context in reply.examples])
    wordings = "\n".join(" ".join(text.split()) for text in reply.wordings)
    covered = f"{reply.covered:.4f}"
    return (
        _no_formula(reply.text),
        reply.count,
        covered,
        _no_formula(questions),
        _no_formula(wordings),
    )


def _no_formula(text: str) -> str:
    return f" {text}" if text.startswith(("=", "+", "-", "@")) else text
