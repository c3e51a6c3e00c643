"""Examples that a reply learns: of the conversations that it answered, those that differ most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.corpora.keys import context_key
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.matching import Match
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.retrieval.encoding.views import encode_conversations
from rejoinder.retrieval.turns import clean_context

MOST_EXAMPLES = 20  # of a reply, its own included


def with_examples(
    encoder: DualEncoder, replies: Mapping[int, Candidate], matches: Sequence[Match]
) -> dict[int, Candidate]:
    """Return the replies, by position, that learn examples.

    Of the examples those that differ most are taken, up to `MOST_EXAMPLES`.
    """
    contexts: defaultdict[int, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for position, written, _ in matches:
        context = clean_context(written)
        contexts[position].setdefault(context_key(context), context)
    changed = {}
    for position, by_key in contexts.items():
        reply = replies[position]
        known = (*reply.examples, *reply.learned)
        for example in known:
            by_key.pop(context_key(example), None)
        room = MOST_EXAMPLES - len(known)
        if by_key and room > 0:
            own = [*known, *by_key.values()]
            chosen = most_different(encode_conversations(encoder, own), len(known), room)
            changed[position] = replace(
                reply, learned=(*reply.learned, *(own[row] for row in chosen))
            )
    return changed


def most_different(vectors: FloatArray, known: int, count: int) -> list[int]:
    """Return at most `count` rows after the first `known`.

    Each is the farthest from those before it.
    """
    chosen: list[int] = []
    nearest = (
        (vectors[:known] @ vectors.T).max(axis=0) if known else vectors @ -vectors.mean(axis=0)
    )
    nearest[:known] = np.inf
    while len(chosen) < min(count, len(vectors) - known):
        row = int(nearest.argmin())
        if not known and not chosen:
            nearest = np.full(len(vectors), -np.inf, np.float32)
        chosen.append(row)
        nearest = np.maximum(nearest, vectors @ vectors[row])
        nearest[row] = np.inf
    return chosen
