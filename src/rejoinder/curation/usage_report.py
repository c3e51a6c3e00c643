"""The report on the use of an index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.report_cells import WIDTH, reply_name
from rejoinder.curation.usage import Usage
from rejoinder.documents import Bars, Block, Document, Table, Text


def usage_document(name: str, replies: Mapping[int, Candidate], usage: Usage) -> Document:
    """Return the report on the use of an index of that name."""
    title = f"Use of {name}"
    if not usage.entries:
        return Document(title, [Text("There is no feedback yet; see `rejoinder feedback --help`.")])
    taken = usage.taken
    among = taken["first"] + taken["offered"]
    blocks: list[Block] = [
        Text(
            f"Of {usage.entries:,} answers the first reply was taken in "
            f"{taken['first'] / usage.entries:.1%}, one of those offered in "
            f"{among / usage.entries:.1%}; {taken['unoffered']:,} times another reply was taken, "
            f"{taken['text']:,} times something else was sent, and {taken['none']:,} times nothing "
            "was taken."
        )
    ]
    if usage.unlike is not None:
        blocks.append(
            Text(
                f"{usage.unlike:.1%} of the newest messages are less like the examples than 95 % "
                "of the examples are like each other: the more, the more examples are missing."
            )
        )
    return Document(title, [*blocks, *_over_time(usage), *_lists(replies, usage)])


def _over_time(usage: Usage) -> list[Block]:
    parts = ("the first", "another one offered", "one not offered", "something else", "nothing")
    bars = [
        (period.start, [count / period.entries for count in period.taken.values()])
        for period in usage.periods
    ]
    rows = [
        (
            period.start,
            period.entries,
            f"{period.taken['first'] / period.entries:.0%}",
            f"{(period.taken['first'] + period.taken['offered']) / period.entries:.0%}",
            f"{(period.taken['text'] + period.taken['none']) / period.entries:.0%}",
            "" if period.unlike is None else f"{period.unlike:.0%}",
        )
        for period in usage.periods
    ]
    head = (usage.period, "answers", "first", "one offered", "no reply", "unlike the examples")
    return [Bars(f"What was taken, by {usage.period}", parts, bars), Table("Over time", head, rows)]


def _lists(replies: Mapping[int, Candidate], usage: Usage) -> list[Block]:
    """Return the report's tables of replies and messages."""
    reply = partial(reply_name, replies)
    groups = [
        (
            group.entries,
            ", ".join(group.words),
            " / ".join(message[:WIDTH] for message in group.messages),
            " / ".join(text[:WIDTH] for text in group.sent),
        )
        for group in usage.groups
    ]
    pairs = [
        (reply(pair.taken), reply(pair.first), pair.entries, pair.message[:WIDTH])
        for pair in usage.confusions
    ]
    unused = [(reply(unused_reply.position), unused_reply.offered) for unused_reply in usage.unused]
    count = f"{usage.unused_count:,}"
    if len(unused) < usage.unused_count:
        count += f"; the {len(unused)} that were offered most"
    return [
        Table(
            f"Messages without a reply ({usage.unanswered:,})",
            ("messages", "words", "for example", "sent instead"),
            groups,
        ),
        Table(
            "Replies that answer for each other",
            ("taken", "offered first", "times", "for example"),
            pairs,
        ),
        Table(f"Replies that nobody took ({count})", ("reply", "offered"), unused),
    ]
