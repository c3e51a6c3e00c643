"""JSON lines: one example or one dialogue a line.

| form | a line |
|---|---|
| pair | `{"context": ["Hi!", "Hello."], "response": "How are you?"}`, also with `candidates` and `label` |
| dialogue | `{"turns": ["Hi!", "Hello.", "How are you?"]}`, also with `from`: the first turn that is a new response |
| chat | `{"messages": [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello."}]}` |
| DATA19 | `{"context": "Hello.", "context/0": "Hi!", "response": "How are you?"}`, extra contexts newest first |

Every form may have `id`, `thread` and `source`; other fields (authors, say) are never used. Where there is no
`thread`, that of a dialogue is the hash of its text (see `dialogues.Threads`) and that of a pair the hash of the first
message of its context, so that pairs which unfold one conversation stay together. Of a chat, messages of the roles
system, developer, tool and function are left out.

Blank messages (nothing but white space) are left out of contexts and dialogues; a blank response, or a context with
nothing else, is a bad line. Blank lines are skipped. All other texts stay as they are.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

from rejoinder.corpora.corpus import Corpus, NoSettings
from rejoinder.corpora.dialogues import Threads
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading, open_lines, strip_compression
from rejoinder.corpora.records import BadRecordError, record_examples


def read_jsonl(
    path: str | Path, reading: Reading | None = None, _settings: NoSettings | None = None
) -> Generator[Example]:
    """Read the examples of a file of JSON lines, compressed or not; there are no settings.

    Raises:
        InputError: a fault of the file; or of a line, with its number, unless bad lines are skipped.
    """
    path, reading, threads = Path(path), reading or Reading(), Threads()
    source = strip_compression(path).stem
    for number, line in open_lines(path, reading):
        if not line or line.isspace():
            continue
        reading.lines += 1
        try:
            # All of a line or nothing: a dialogue whose last turn is bad gives no example.
            examples = list(record_examples(parse_object(line), f"{source}:{number}", source, reading, threads))
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))
        else:
            yield from examples


def parse_object(line: str) -> dict[str, Any]:
    """The object of a line of JSON.

    Raises:
        BadRecordError: it is not JSON, or no object.
    """
    try:
        record = json.loads(line)
    except RecursionError:
        raise BadRecordError("JSON nested too deep; a line holds one flat object") from None
    except ValueError as error:
        raise BadRecordError(f"not JSON ({error}); one object a line is read") from None
    if not isinstance(record, dict):
        raise BadRecordError(f"JSON, but a {type(record).__name__}; one object a line is read")
    return record


CORPUS = Corpus(
    name="jsonl",
    title="Your own conversations or pairs, one JSON object a line.",
    reads='*.jsonl: {"turns": [...]}, {"messages": [...]}, {"context": [...], "response": "..."}, DATA19\'s flat form',
    licence="yours",
    origin="your own export",
    expected="",
    read=read_jsonl,
)
DIALOGUES = dataclasses.replace(
    CORPUS,
    name="dialogues",
    title="Published dialogues, one a line; a line may repeat turns of an earlier one.",
    reads='*.jsonl.zst (also with --long): {"id", "source", "turns": [...]}, with "from": the first turn that is new',
    licence="each file its own",
    origin="each file its own",
)
