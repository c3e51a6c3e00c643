"""Objects of a JSON array, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rejoinder.corpora.forms.pieces import Pieces
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

if TYPE_CHECKING:
    pass

MAX_DEPTH = 16  # most objects or arrays within each other; the corpora have five or so


def json_objects(path: Path, reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that holds one JSON array, one at a time.

    InputError, even if bad lines are skipped: no such array, or it is cut off or nested too deep.
    """
    import ijson

    count = 1
    depth = 0
    builder = ijson.ObjectBuilder()
    try:
        # Not `ijson.items`, whose memory grows with the square of the depth.
        for event, value in ijson.basic_parse(Pieces(path, reading), use_float=True):
            if depth == 0 and event != "start_array":
                raise InputError(f'{path}:1: no JSON array; "[", objects and "]" are read')
            if depth == 1 and event not in ("start_map", "end_array"):
                kind = event.removeprefix("start_")
                raise InputError(f"{path}:{count}: object {count}: a JSON {kind}; objects are read")
            depth += event.startswith("start_") - event.startswith("end_")
            if depth > MAX_DEPTH:
                raise InputError(
                    f"{path}:{count}: object {count}: JSON nested more than {MAX_DEPTH} deep"
                )
            if depth > 1 or event == "end_map":
                builder.event(event, value)
            if depth == 1 and event == "end_map":
                yield builder.value
                count = count + 1
                builder = ijson.ObjectBuilder()
    except ijson.JSONError as error:
        text = error.args[0]
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(error)
        reason = text.partition("\n")[0].strip(". ")
        raise InputError(
            f"{path}:{count}: object {count}: {reason}; copy or download it again"
        ) from None
