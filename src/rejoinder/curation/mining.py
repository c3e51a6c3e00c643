"""Canned replies out of old chats: agents' messages grouped, one text for each group.

Messages that differ in numbers, dates and the like alone are one text. The texts that cover most
messages become replies; see `cover`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray, IntArray, unit_rows
from rejoinder.checks import list_paths
from rejoinder.corpora.keys import context_key, text_key
from rejoinder.corpora.schema import Example
from rejoinder.curation.chats import read_chats
from rejoinder.curation.cover import choose, cover
from rejoinder.curation.examples import most_different
from rejoinder.curation.forms import mask
from rejoinder.curation.frames import Frames
from rejoinder.curation.matching import newest_messages
from rejoinder.curation.placeholders import with_placeholders
from rejoinder.encoders.bundled import DEFAULT
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.encoders.vectors import check_rows
from rejoinder.errors import InputError
from rejoinder.progress import Advance, silent
from rejoinder.retrieval.encoding.background import mean_background
from rejoinder.retrieval.encoding.templates import plain
from rejoinder.stores.models import check_encoder

logger = logging.getLogger(__name__)

LIKENESS = 0.7  # cosine, less the mean of all messages, from which two texts are one reply
EXAMPLES = 10  # conversations of a reply, of those that differ most
WORDINGS = 5  # of a reply
SHOWN = 20  # groups that are left uncovered
_FEW = 100  # messages, below which the mean of general messages counts more than their own
_AT_ONCE = 512  # texts that are encoded
_OF_A_TEXT = 3  # conversations and spellings that are remembered of a text
_GATHERED = 20  # conversations and spellings of a reply among which some are chosen


@dataclass(frozen=True, slots=True)
class MinedReply:
    """A reply, and what is known of it."""

    text: str
    count: int  # messages to which it is the nearest reply
    covered: float  # share of all messages that this reply and those before it cover
    wordings: tuple[str, ...]  # other messages that it covers
    examples: tuple[tuple[str, ...], ...]  # conversations that it answered

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON types; `rejoinder index build` reads it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Mining:
    """Replies out of chats: each covers the most of what those before it leave."""

    messages: int
    replies: tuple[MinedReply, ...]
    uncovered: tuple[tuple[str, int], ...]  # the largest groups without a reply: text and count

    def curve(self) -> list[tuple[int, float]]:
        """Return which share of the messages 1, 2, 5, 10, ... replies cover."""
        counts = [int(f"{digit}{'0' * zeros}") for zeros in range(7) for digit in (1, 2, 5)]
        last = len(self.replies)
        shown = [*(count for count in counts if count < last), *([last] if last else [])]
        return [(count, self.replies[count - 1].covered) for count in shown]


@dataclass(slots=True)
class _Text:
    """Messages that differ in parts of a known form alone."""

    spellings: Counter[str] = field(default_factory=Counter)
    contexts: list[tuple[str, ...]] = field(default_factory=list)
    count: int = 0

    def add(self, example: Example) -> None:
        self.count += 1
        if len(self.spellings) < _OF_A_TEXT or example.response in self.spellings:
            self.spellings[example.response] += 1
        context = newest_messages(example.context)
        if context and len(self.contexts) < _OF_A_TEXT:
            self.contexts.append(context)

    def join(self, other: _Text) -> None:
        """Add the messages of another one."""
        self.count += other.count
        self.spellings.update(other.spellings)
        self.contexts = [*self.contexts, *other.contexts][:_GATHERED]


def mine(
    paths: str | Path | Sequence[str | Path],
    model: str | Path | Ranker = DEFAULT,
    *,
    most: int = 200,
    least: int = 3,
    settings: Mapping[str, object] | None = None,
    device: str = "auto",
    progress: Advance = silent,
    note: Callable[[str], None] = logger.warning,
) -> Mining:
    """Find canned replies in old chats: messages that agents repeat, and what they answer.

    >>> mined = rejoinder.mine("whatsapp.zip", settings={"agent": "Anna"})  # doctest: +SKIP
    >>> mined.replies[0].text  # doctest: +SKIP
    'It is on its way.'

    Args:
        paths: exports of chats in any form that `rejoinder data chats` reads, or data folders.
        model: tells which messages mean the same; opened, or its name or folder.
        most: replies at most.
        least: messages that a reply covers at least, and none before it.
        settings: of the corpus "chats", such as `agent`; `redact` is true by default.
        device: "cpu", "cuda" or "auto", on which a model that has yet to be opened computes.
        progress: called with the number of messages read since.
        note: called with what is to be known about a file.

    Raises:
        InputError: a path or setting is wrong, or there is no message of an agent.
    """
    need = (
        "name exports of chats first, then the model;"
        " rejoinder.curation.mining.mine_examples takes examples"
    )
    sources = list_paths(paths, need)
    if isinstance(model, str | Path):
        model = open_encoder(model, device=device)
    encoder = check_encoder(model)
    examples = read_chats(map(Path, sources), settings or {}, note)
    return mine_examples(examples, encoder, most=most, least=least, progress=progress)


def mine_examples(
    examples: Iterable[Example],
    encoder: DualEncoder,
    *,
    most: int = 200,
    least: int = 3,
    progress: Advance = silent,
) -> Mining:
    """Return replies for the messages that are the responses of examples.

    Args:
        examples: of chats; `progress` counts them.
        encoder: tells which messages mean the same.
        most: replies at most.
        least: messages that a reply covers at least, and none before it.
        progress: called with the number of examples read since.

    Raises:
        InputError: there is no message.
    """
    texts = _texts(examples, progress)
    if not texts:
        raise InputError("the chats hold no message of an agent that answers another one")
    counts = np.array([text.count for text in texts], dtype=np.float32)
    vectors = _vectors(texts, encoder, counts)
    chosen = choose(vectors, counts, most + SHOWN, LIKENESS)
    return _mining(texts, counts, vectors, chosen, encoder, most, least)


def _texts(examples: Iterable[Example], progress: Advance) -> list[_Text]:
    """Return the messages; those that differ in frames and known forms alone are one text."""
    whole: dict[str, _Text] = {}
    for example in examples:
        whole.setdefault(text_key(mask(example.response)), _Text()).add(example)
        progress(1)
    frames = Frames(spelling for text in whole.values() for spelling in text.spellings)
    texts: dict[str, _Text] = {}
    for text in whole.values():
        stripped = Counter[str]()
        for spelling, count in text.spellings.items():
            stripped[frames.remove(spelling)] += count
        text.spellings = stripped
        key = text_key(mask(_spelling(text)))
        if key in texts:
            texts[key].join(text)
        else:
            texts[key] = text
    return list(texts.values())


def _vectors(texts: Sequence[_Text], encoder: DualEncoder, counts: FloatArray) -> FloatArray:
    """Return unit vectors (n, d) of texts, from which the mean of all messages is taken.

    The mean of few messages is mixed with that of general ones.
    """
    masked = [plain(mask(_spelling(text))) for text in texts]
    vectors = _encode(encoder, masked)
    total = counts.sum()
    mean = (counts @ vectors + _FEW * mean_background(encoder)) / (total + _FEW)
    return unit_rows(vectors - mean.astype(np.float32))


def _encode(encoder: DualEncoder, texts: Sequence[str]) -> FloatArray:
    parts = []
    for start in range(0, len(texts), _AT_ONCE):
        part = list(texts[start : start + _AT_ONCE])
        parts.append(check_rows(encoder.encode_responses(part), "message", start, unit=False))
    return unit_rows(np.concatenate(parts))


def _mining(
    texts: Sequence[_Text],
    counts: FloatArray,
    vectors: FloatArray,
    chosen: IntArray,
    encoder: DualEncoder,
    most: int,
    least: int,
) -> Mining:
    """Return the first of the chosen texts as replies, and those after them as uncovered."""
    first, _, _ = cover(vectors, vectors[chosen], LIKENESS)
    gains = np.bincount(first[first >= 0], counts[first >= 0], minlength=len(chosen))
    kept = np.flatnonzero(gains >= least)[:most]
    if not len(kept):
        raise InputError(
            f"no reply stands for {least} messages or more: the largest group has "
            f"{int(gains.max())} of {int(counts.sum())}; lower --least, or give more chats"
        )
    _, owners, likeness = cover(vectors, vectors[chosen[kept]], LIKENESS)
    shares = np.cumsum(gains[kept]) / counts.sum()
    replies = []
    for group, share in enumerate(shares.tolist()):
        members = np.flatnonzero(owners == group)
        members = members[np.argsort(-likeness[members], kind="stable")]
        own = [texts[row] for row in members.tolist()]
        count = int(counts[members].sum())
        # The commonest one has no typing errors; where all are different, the nearest is the
        # centre.
        text = max(own, key=lambda member: member.count)
        replies.append(_reply(text, own, count, share, encoder))
    ranked = np.argsort(-gains, kind="stable")
    rest = [row for row in ranked if gains[row] and row not in set(kept.tolist())]
    uncovered = [(_spelling(texts[chosen[row]]), int(gains[row])) for row in rest[:SHOWN]]
    return Mining(int(counts.sum()), tuple(replies), tuple(uncovered))


def _reply(
    own: _Text, members: Sequence[_Text], count: int, covered: float, encoder: DualEncoder
) -> MinedReply:
    """Return a reply; its `members` come nearest first."""
    text = _spelling(own)
    by_key: dict[str, str] = {}
    for member in members:
        for spelling, _ in member.spellings.most_common():
            by_key.setdefault(text_key(spelling), spelling)
    others = [other for other in by_key.values() if other != text][:_GATHERED]
    contexts = {context_key(context): context for member in members for context in member.contexts}
    gathered = list(contexts.values())[:_GATHERED]
    examples: list[tuple[str, ...]] = []
    if gathered:
        encoded = _encode(encoder, [context[-1] for context in gathered])
        examples = [gathered[row] for row in most_different(encoded, 0, EXAMPLES)]
    return MinedReply(
        with_placeholders(text, others), count, covered, tuple(others[:WORDINGS]), tuple(examples)
    )


def _spelling(text: _Text) -> str:
    return text.spellings.most_common(1)[0][0]
