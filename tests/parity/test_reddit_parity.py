"""Reddit's examples beside a slow reference: a dictionary of all comments, and for each a walk to its end."""

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.reddit.settings import RedditSettings
from tests.corpora.reddit_lines import comment, run

WORDS = "A comment, of words; with marks: and, well, no end... in sight "
NAMES = ["a", "b", "c", "d", "e", "f", "ab", "ba", "bb", "ca", "aab", "baa"]
PARENTS = st.just("") | st.sampled_from([*NAMES, "z"])
COPIES = [comment("a", "", "[removed]"), comment("a", "", "[deleted]")]
ANSWERS = [comment("b", "a"), comment("c", "b")]


def reference(lines, chosen, history):
    """(id, thread, context, response) of every example, by the rules as they are written down in docs/corpora.md."""
    comments = {}
    for line in lines:
        if chosen.subreddits and line["subreddit"] not in chosen.subreddits:
            continue
        key = line["link_id"][3:], line["id"]
        comments[key] = max(line, comments.get(key, line), key=lambda line: rank(line, chosen))
    examples = set()
    for (thread, name), response in comments.items():
        chain = ancestors(thread, response, comments)
        if not chain or not passes(response, chosen) or not passes(chain[0], chosen):
            continue
        nearest = chain[: min(chosen.depth, history + 1)]
        messages = [
            nearest[0]["body"],
            *(shortened(each["body"] or "[deleted]", chosen.cut) for each in nearest[1:]),
        ]
        context = tuple(message for message in reversed(messages) if message.strip())
        examples.add((name, thread, context, response["body"]))
    return examples


def ancestors(thread, line, comments):
    """What a comment answers, what that answers, and so on; nothing if that goes round in a circle."""
    chain = []
    while line["parent_id"].startswith("t1_") and (thread, line["parent_id"][3:]) in comments:
        line = comments[thread, line["parent_id"][3:]]
        if any(line is each for each in chain):
            return []
        chain.append(line)
    return chain


def gone(line):
    return line["body"] in (None, "[deleted]", "[removed]")


def rank(line, chosen):
    """What decides which copy of a comment counts: the greatest."""
    parent = line["parent_id"]
    return (
        fault(line, chosen),
        parent[3:] if parent.startswith("t1_") else "",
        line["body"] or "[deleted]",
    )


def passes(line, chosen):
    return fault(line, chosen) == 0


def fault(line, chosen):
    if gone(line):
        return 5
    size = (
        len(line["body"]) if chosen.unit == "characters" else len(re.findall(r"\S+", line["body"]))
    )
    if size < chosen.min_length:
        return 1
    if size > chosen.max_length:
        return 2
    return 0 if line["body"].strip() else 3


def shortened(text, limit):
    """As DATA19's code does it: one character too many, then off with the last one until a boundary shows."""
    if len(text) <= limit:
        return text
    text = text[: limit + 1]
    while len(text) > 1 and text[-1].isalnum() == text[-2].isalnum():
        text = text[:-1]
    return text[:-1]


@st.composite
def dumps(draw):
    """Two threads with circles, missing parents, copies, and bodies of every length and kind."""
    lines = []
    for thread in "tu":
        for name in draw(st.lists(st.sampled_from(NAMES), max_size=14, unique=True)):
            line = comment(name, draw(PARENTS), draw(bodies()), thread)
            lines += [line] * draw(st.integers(1, 2))
            if draw(st.booleans()) and draw(st.booleans()):
                lines.append(line | {"body": draw(bodies())})
                lines.append(comment(name, draw(PARENTS), line["body"], thread))
    return draw(st.permutations(lines))


@st.composite
def bodies(draw):
    start, length = draw(st.integers(0, 20)), draw(st.integers(0, 40) | st.integers(0, 400))
    text = (WORDS * 8)[start : start + length]
    return draw(st.just(text) | st.sampled_from(["[deleted]", "[removed]", " \t ", None])) or None


@given(
    dumps(),
    st.builds(
        RedditSettings,
        unit=st.sampled_from(["characters", "words"]),
        min_length=st.integers(1, 10),
        max_length=st.integers(10, 200),
        depth=st.integers(1, 12),
        cut=st.integers(1, 200),
        subreddits=st.sampled_from([(), ("pics",), ("other",)]),
    ),
    st.integers(0, 12),
    st.integers(1, 3),
)
@example([*COPIES, *ANSWERS], RedditSettings(), 10, 1)
@example([*COPIES[::-1], *ANSWERS], RedditSettings(), 10, 1)
@example(
    [comment("ab"), comment("ba"), comment("a", "ba"), comment("a", "ab")], RedditSettings(), 10, 1
)
@settings(max_examples=100)
def test_the_examples_are_those_of_the_reference(lines, chosen, history, partitions):
    examples = run(lines, chosen, Reading(history=history), cuts=[5, 11], partitions=partitions)
    found = {(each.id, each.thread, each.context, each.response) for each in examples}
    assert len(found) == len(examples)
    assert found == reference(lines, chosen, history)
