"""DailyDialog: conversations of everyday life, one a line (Li et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.dialogues import Dialogue, dialogue_examples
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.records import BadRecordError, parse_lines
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread

_END = "__eou__"  # of an utterance


def read_daily_dialog(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Yield the examples of a file, dialogue by dialogue."""

    def parse(number: int, line: str) -> Dialogue:
        if _END not in line:
            raise BadRecordError(f"no {_END}, which ends each utterance of a dialogue")
        turns = [turn.strip() for turn in line.split(_END)]
        *spoken, _ = turns  # what is behind the last end
        reading.blank_messages += spoken.count("")
        return dialogue_examples(
            turns,
            name=f"{reading.stem(path)}:{number}",
            thread=content_thread(turns),
            source="daily-dialog",
            reading=reading,
        )

    return parse_lines(path, reading, parse)


DAILY_DIALOG = Corpus(
    name="daily-dialog",
    title="DailyDialog: conversations of everyday life, written for learners of English.",
    reads="dialogues_{train,validation,test}.txt, or dialogues_text.txt",
    licence="CC BY-NC-SA 4.0",
    origin="yanran.li/dailydialog",
    expected="13,118 dialogues: 11,118 to train, 1,000 to validate, 1,000 to test",
    read=read_daily_dialog,
)
