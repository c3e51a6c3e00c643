"""`rejoinder mine`: canned replies out of old chats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rejoinder.cli.options import Json, Overwrite, Settings
from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import note, track

if TYPE_CHECKING:
    from rejoinder.corpora.example import Example

_SHOWN = 10  # replies, and groups without one


def mine(
    chats: Annotated[
        list[Path],
        typer.Argument(
            metavar="CHATS...",
            help="Exports of chats (`rejoinder formats`), or folders of examples.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The replies: .csv to review, or .jsonl."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Encoder that tells which messages mean the same. Default: bi-small.",
        ),
    ] = None,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="How many replies at most.")] = 200,
    least: Annotated[
        int, typer.Option(min=1, metavar="N", help="Messages that a reply covers at least.")
    ] = 3,
    settings: Settings = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Find canned replies in old chats: what agents send again and again, and what it answers.

    Personal data and names are replaced; --set agent=NAME says who answers, as for `data chats`.

    Review a table in a spreadsheet: edit a text, delete a row to drop it, give two rows the same
    text to merge them. Then: rejoinder index build bi-small replies.csv -o replies.index

    Example: rejoinder mine whatsapp.zip -o replies.csv
    """
    from rejoinder.encoders.bundled import DEFAULT
    from rejoinder.encoders.open import open_encoder
    from rejoinder.retrieval import mining

    mining.check_output(output, overwrite=overwrite)
    encoder = open_encoder(model or DEFAULT)
    with track("Reading chats", unit="messages") as advance:
        mined = mining.mine(
            _examples(chats, settings or []), encoder, most=most, least=least, progress=advance
        )
    mining.write_replies(mined, output)
    result = {
        "output": str(output),
        "messages": mined.messages,
        "replies": len(mined.replies),
        "curve": [{"replies": count, "covered": share} for count, share in mined.curve()],
        "shown": [reply.to_json() for reply in mined.replies[:_SHOWN]],
        "uncovered": [{"text": text, "count": count} for text, count in mined.uncovered],
    }
    emit(result, as_json, _text)


def _examples(paths: list[Path], settings: list[str]) -> Iterator[Example]:
    """Yield the examples of exported chats, and of folders of examples; redacted by default."""
    from rejoinder.corpora.example import redact_example
    from rejoinder.corpora.examples import read_examples
    from rejoinder.corpora.lines import Reading
    from rejoinder.corpora.sources import find_corpus, read_settings
    from rejoinder.retrieval.learning import NEWEST

    corpus = find_corpus("chats")
    values = read_settings(corpus, ["redact=true", *settings])
    assert corpus.read is not None
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist; name an export of chats or a data folder")
        if path.is_dir() and any(path.glob("*.parquet")):
            examples = read_examples(path)
            yield from map(redact_example, examples) if values.redact else examples
            continue
        reading = Reading(history=NEWEST)
        yield from corpus.read(path, reading, values)
        for text in reading.notes:
            note(text)


def _text(result: Mapping[str, Any]) -> str:
    lines = [
        f"{reply['count']:>7,}  {reply['text'].replace(chr(10), ' ')[:100]}"
        for reply in result["shown"]
    ]
    lines += ["", *(_share(**point) for point in result["curve"])]
    if result["uncovered"]:
        lines += ["", "without a reply, the largest groups:"]
        lines += [
            f"{group['count']:>7,}  {group['text'].replace(chr(10), ' ')[:100]}"
            for group in result["uncovered"][:_SHOWN]
        ]
    lines += [
        "",
        f"{result['replies']:,} replies of {result['messages']:,} messages: {result['output']}",
    ]
    return "\n".join(lines)


def _share(replies: int, covered: float) -> str:
    return f"{replies:>7,} cover {covered:.0%} of the messages"
