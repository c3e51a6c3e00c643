"""Customer support on Twitter, as published in twcs.csv: tweets with what they answer.

A chat is the way from a first tweet to one that nobody answers; those that share their beginning
share a thread, and only what is new in each becomes an example.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import fold
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.forms.tables import open_table
from rejoinder.corpora.limits import MAX_WAY
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.times import parse_time
from rejoinder.patterns import search_pattern

_COLUMNS = {
    "tweet_id",
    "author_id",
    "inbound",
    "created_at",
    "text",
    "in_response_to_tweet_id",
}
_MENTIONS = search_pattern(r"^(?:@\w+\s+)+")


class _Tweet(NamedTuple):
    message: ChatMessage
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
        message = ChatMessage(fields["author_id"], text, time, agent)
        tweets[fields["tweet_id"].removesuffix(".0")] = _Tweet(message, parent)
        answers[parent] += 1
    # Several tweets may be one turn, and one turn more than is kept shows that the context is cut.
    most = MAX_WAY if reading.history is None else 3 * (reading.history + 2)
    roots: dict[str, str] = {}  # the first tweet of the way to each
    for name in tweets:
        if not answers[name]:
            new, known = _way_to(name, tweets, roots, most)
            root = roots[known[-1]] if known else new[0]
            roots.update(dict.fromkeys(new, root))
            if tweets[root].parent:
                reading.drop("chats whose first tweet is missing")
            messages = [tweets[name].message for name in (*known, *new)]
            yield Chat(messages, root, known=len(known))


def _way_to(
    name: str, tweets: dict[str, _Tweet], roots: dict[str, str], most: int
) -> tuple[list[str], list[str]]:
    """Return the tweets to this one that no earlier way has, and at most so many before them."""
    way: dict[str, None] = {}
    while name in tweets and name not in way and name not in roots:
        way[name] = None
        name = tweets[name].parent
    before: dict[str, None] = {}
    while name in roots and name not in before and len(before) < most:
        before[name] = None
        name = tweets[name].parent
    return list(reversed(way)), list(reversed(before))


TWITTER = Form(
    name="twitter",
    title="Customer support on Twitter",
    holds="chats",
    export="the published twcs.csv (kaggle.com/datasets/thoughtvector/customer-support-on-twitter)",
    matches=lambda sample: {fold(name) for name in sample.columns} >= _COLUMNS,
    read=read_twitter,
    takes=frozenset(("delimiter",)),
)
