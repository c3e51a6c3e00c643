"""Customer support on Twitter, as published in twcs.csv: tweets with what they answer.

A chat is the way from a first tweet to one that nobody answers; those that share their beginning
share a thread, and only what is new in each becomes an example.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rejoinder.corpora.form import Chat, Form, Message
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.source import Sample
from rejoinder.corpora.tables import Choice, fold, open_table
from rejoinder.corpora.times import parse_time

_COLUMNS = {"tweet_id", "author_id", "inbound", "created_at", "text", "in_response_to_tweet_id"}
_MENTIONS = re.compile(r"^(?:@\w+\s+)+")


class _Tweet(NamedTuple):
    message: Message
    parent: str


def read_twitter(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of the published table."""
    tweets: dict[str, _Tweet] = {}
    answers = Counter[str]()
    for _, row in open_table(sample, choice, _COLUMNS, reading).rows:
        fields = {
            fold(name): str(value if value is not None else "") for name, value in row.items()
        }
        text = html.unescape(_MENTIONS.sub("", fields["text"])).strip()
        agent = fields["inbound"].casefold() in ("false", "0")
        parent = fields["in_response_to_tweet_id"].removesuffix(".0")
        time = parse_time(fields["created_at"])
        message = Message(fields["author_id"], text, time, agent)
        tweets[fields["tweet_id"].removesuffix(".0")] = _Tweet(message, parent)
        answers[parent] += 1
    seen: set[str] = set()
    for name in tweets:
        if not answers[name]:
            way = _way(name, tweets)
            if tweets[way[0]].parent:
                reading.drop("chats whose first tweet is missing")
            known = sum(name in seen for name in way)
            seen.update(way)
            branches = any(answers[name] > 1 for name in way)
            thread = f"tweet {way[0]}" if branches else ""
            messages = [tweets[name].message for name in way]
            yield Chat(messages, way[0], known=known, thread=thread)


def _way(name: str, tweets: dict[str, _Tweet]) -> list[str]:
    """Return the tweets from the first one to this one."""
    way: dict[str, None] = {}
    while name in tweets and name not in way:
        way[name] = None
        name = tweets[name].parent
    return list(reversed(way))


FORM = Form(
    name="twitter",
    title="Customer support on Twitter",
    holds="chats",
    export="the published twcs.csv (kaggle.com/datasets/thoughtvector/customer-support-on-twitter)",
    matches=lambda sample: {fold(name) for name in sample.columns} >= _COLUMNS,
    read=read_twitter,
    takes=frozenset(("delimiter",)),
)
