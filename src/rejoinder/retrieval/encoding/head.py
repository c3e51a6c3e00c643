"""The head of an index, fitted to what its replies are known by, and its file."""

from __future__ import annotations

import hashlib
import itertools
import statistics
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.progress import Advance, Track, no_track, silent
from rejoinder.retrieval.encoding import scoring
from rejoinder.retrieval.encoding.background import encode_background, texts_for
from rejoinder.retrieval.encoding.batches import read_as
from rejoinder.retrieval.encoding.confidence import from_held_out
from rejoinder.retrieval.encoding.density import fit_density
from rejoinder.retrieval.encoding.familiarity import ViewWords
from rejoinder.retrieval.encoding.held_out import HeldOutScores, hold_out
from rejoinder.retrieval.encoding.scoring import Head
from rejoinder.retrieval.encoding.views import Views, encode_views
from rejoinder.stores.manifest import HeadRecord, Manifest
from rejoinder.stores.names import CALIBRATION, HEAD_FILE
from rejoinder.stores.rows import OrderedRows, gone_rows
from rejoinder.stores.runs import Positions, read_runs, write_runs
from rejoinder.stores.segments import Segment
from rejoinder.stores.store import Store
from rejoinder.stores.writing import Batch, example_count, to_line, write_segment

ANSWER_WORDS = 24
"""Median length of replies from which they are answers, as an FAQ has them: their sentences count,
without titles and examples too."""
MOST_ANSWERS = 2_000  # that are seen so: each build encodes all their sentences
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class FittedIndex:
    """The manifest of an index whose replies were scored anew, and what was measured."""

    manifest: Manifest
    held_out: HeldOutScores | None


def takes_examples(encoder: DualEncoder) -> bool:
    """Return whether examples can count: the encoder gives a conversation one vector."""
    vectors = encoder.encode_contexts([["Hello!"]])
    return not isinstance(vectors, ContextVectors) and np.ndim(vectors) == 2


def needs_head(examples: int, replies: Iterable[Candidate], encoder: DualEncoder) -> bool:
    """Return whether an index needs a head: it has some `examples`, or its replies are answers."""
    return bool(examples or _are_answers(replies)) and takes_examples(encoder)


def _are_answers(replies: Iterable[Candidate]) -> bool:
    """Return whether replies are as in an FAQ, see `ANSWER_WORDS`."""
    words = [len(reply.text.split()) for reply in itertools.islice(replies, MOST_ANSWERS + 1)]
    return 0 < len(words) <= MOST_ANSWERS and statistics.median(words) >= ANSWER_WORDS


def check_takes_examples(encoder: DualEncoder) -> None:
    """Refuse a model whose conversations have several vectors."""
    if not takes_examples(encoder):
        raise InputError(
            f"{encoder.name or 'the model'} gives a conversation several vectors, so examples "
            "cannot count; take a model of one vector, such as bi-small, and `rejoinder index "
            "reencode`"
        )


def fit_index(
    store: Store,
    manifest: Manifest,
    segments: Sequence[Segment],
    encoder: DualEncoder,
    changes: Mapping[int, Candidate] | None = None,
    progress: Advance = silent,
    phases: Track = no_track,
) -> FittedIndex:
    """Fit the head of an index, and write its replies anew as one segment.

    `changes` are replies, by position, that take the place of those that the index has, or come
    back to positions whose replies were deleted; new texts are encoded. What was written before
    stays: `sweep` removes it. `progress` gets the number of replies just encoded.
    """
    positions, candidates, responses = _changed(segments, manifest, changes or {}, encoder)
    holes = write_runs(np.setdiff1d(read_runs(manifest.gone), positions))
    at = positions.tolist()
    count = sum(map(example_count, candidates))
    if not needs_head(count, candidates, encoder):
        lines = [to_line(reply, number) for reply, number in zip(candidates, at, strict=True)]
        plain = _empty(manifest)
        batches = [Batch(lines, responses, None, count)] if lines else []
        return FittedIndex(write_segment(plain, store, batches, unit=False, holes=holes), None)
    head, weights, held_out = fit_replies(
        encoder, candidates, responses, plain=manifest.plain, progress=progress, phases=phases
    )
    record = write_head(store, head, held_out, manifest.end)

    def scored() -> Iterator[Batch]:
        for start in range(0, len(candidates), _BATCH):
            part = slice(start, start + _BATCH)
            lines = [
                to_line(reply, number)
                for reply, number in zip(candidates[part], at[part], strict=True)
            ]
            vectors = head.vectors(weights[part], responses[part])
            yield Batch(lines, vectors, responses[part], sum(map(example_count, candidates[part])))

    empty = replace(_empty(manifest), head=record)
    new = write_segment(empty, store, scored(), unit=False, holes=holes)
    return FittedIndex(new, held_out)


def _empty(manifest: Manifest) -> Manifest:
    """Return the manifest of an index of the same model without replies."""
    return Manifest(
        manifest.model, size=manifest.size, plain=manifest.plain, change=manifest.change
    )


def _changed(
    segments: Sequence[Segment],
    manifest: Manifest,
    changes: Mapping[int, Candidate],
    encoder: DualEncoder,
) -> tuple[Positions, list[Candidate], FloatArray]:
    """Return the positions, replies and encodings of texts that are left, after changes."""
    left = _present(manifest, segments)
    candidates = left.candidates()
    restored = np.setdiff1d(np.array(sorted(changes), dtype=np.int64), left.positions)
    nothing = np.zeros((len(restored), manifest.size), np.float32)
    responses = np.concatenate([left.responses(), nothing]) if len(left) else nothing
    positions = np.concatenate([left.positions, restored])
    candidates += [changes[position] for position in restored.tolist()]
    order = np.argsort(positions)
    new = list(range(len(positions) - len(restored), len(positions)))
    for row, position in enumerate(positions.tolist()):
        if position in changes:
            new += [row] if changes[position].text != candidates[row].text else []
            candidates[row] = changes[position]
    if new:
        read = read_as([candidates[row] for row in new], plain=manifest.plain)
        responses[new] = encoder.encode_responses([reply.text for reply in read])
    return positions[order], [candidates[row] for row in order.tolist()], responses[order]


def _present(manifest: Manifest, segments: Sequence[Segment]) -> OrderedRows:
    """Return the rows of the replies that there are."""
    return OrderedRows.of(segments, gone_rows(segments, read_runs(manifest.deleted)))


def fit_replies(
    encoder: DualEncoder,
    candidates: Sequence[Candidate],
    responses: FloatArray,
    *,
    plain: bool,
    progress: Advance = silent,
    phases: Track = no_track,
) -> tuple[Head, FloatArray, HeldOutScores | None]:
    """Return the head of replies with their response encodings, their u, and what was measured.

    Replies that are the same but for their payload count once. `phases` shows the encoding of
    examples, and the fit.
    """
    keys = [
        (candidate.text, candidate.title, candidate.examples, candidate.learned)
        for candidate in candidates
    ]
    different, copies = np.unique(_firsts(keys), return_inverse=True)
    head, weights, held_out = _fit_different(
        encoder,
        [candidates[row] for row in different.tolist()],
        responses[different],
        plain=plain,
        progress=progress,
        phases=phases,
    )
    return head, weights[copies], held_out


def _fit_different(
    encoder: DualEncoder,
    candidates: Sequence[Candidate],
    responses: FloatArray,
    *,
    plain: bool,
    progress: Advance,
    phases: Track,
) -> tuple[Head, FloatArray, HeldOutScores | None]:
    """Return what `fit_replies` does, of replies no two of which are the same."""
    with phases("Encoding titles and examples", len(candidates), "replies") as shown:

        def advance(count: int) -> None:
            progress(count)
            shown(count)

        views = encode_replies(encoder, candidates, plain=plain, progress=advance)
    background = encode_background(encoder)
    has_examples = any(reply.examples or reply.learned for reply in candidates)
    texts = texts_for(encoder)
    words = ViewWords(read_as(candidates, plain=plain), views, texts)
    with phases("Fitting", len(views.weights), "texts") as shown:
        # Messages are unlike titles, but not unlike examples.
        density = fit_density(views, background, texts) if has_examples else None
        # Replies of one text are measured as one: with either, a message found its reply.
        firsts = _firsts([candidate.text for candidate in candidates])
        joined = replace(views, owners=firsts[views.owners])
        held_out = hold_out(joined, background, responses, words, density)
        alone = None
        if held_out is None:
            alone = hold_out(joined, background, responses, words, density, lone=True)
        measured = held_out or alone
        moves = None if measured is None else measured.moves
        head, weights, _ = scoring.fit(views, background, len(candidates), moves)
        shown(len(views.weights))
    if held_out is not None:
        head = replace(head, text_weight=held_out.text_weight, word_weight=held_out.word_weight)
    elif alone is not None:
        head = replace(head, minimum_score=alone.minimum_score, word_weight=alone.word_weight)
    elif not any(map(example_count, candidates)):
        head = head.of_sentences()
    elif not has_examples:
        head = replace(head, text_weight=scoring.TEXT_WEIGHT_OF_TITLES)
    elif density is not None:
        head = replace(head, minimum_score=scoring.MINIMUM_SCORE + density.usual_change)
    if density is not None and (held_out is None or held_out.has_density):
        head = density.into(head)
    return head, weights, held_out


def _firsts(keys: Sequence[Hashable]) -> Positions:
    """Return for each key the number of the first one that equals it."""
    first_of: dict[Hashable, int] = {}
    numbers = [first_of.setdefault(key, number) for number, key in enumerate(keys)]
    return np.array(numbers, dtype=np.int64)


def encode_replies(
    encoder: DualEncoder,
    replies: Sequence[Candidate],
    *,
    plain: bool,
    progress: Advance = silent,
) -> Views:
    """Encode the views of replies; see `views.encode_views`."""
    candidates = read_as(replies, plain=plain)
    parts = []
    for start in range(0, len(candidates), _BATCH):
        views = encode_views(encoder, candidates[start : start + _BATCH])
        parts.append(replace(views, owners=views.owners + start))
        progress(len(candidates[start : start + _BATCH]))
    return Views(
        np.concatenate([part.vectors for part in parts]),
        np.concatenate([part.owners for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def write_head(store: Store, head: Head, held_out: HeldOutScores | None, end: int) -> HeadRecord:
    """Write the file of a head, of the replies up to a position."""
    from safetensors.numpy import save

    tensors = {"whitening": head.whitening, "none": head.none}
    if head.density is not None:
        typical = np.array([head.typical], np.float32)
        tensors |= {"density": head.density, "typical": typical}
    content = save(tensors)
    digest = hashlib.sha256(content).hexdigest()
    name = HEAD_FILE.replace("*", digest[:12])
    store.write_file(name, content)
    record = HeadRecord(
        name,
        len(content),
        digest,
        text_weight=head.text_weight,
        minimum_score=head.minimum_score,
        word_weight=head.word_weight,
        density_end=0 if head.density is None else end,
    )
    if held_out is None:
        return record
    own = held_out.is_own
    return replace(
        record,
        minimum_score=held_out.minimum_score,
        held_out=int(own.sum()),
        right=float(held_out.right[own].mean()),
        refused=held_out.refused,
    )


def write_fitted(
    store: Store, manifest: Manifest, encoder: DualEncoder, phases: Track = no_track
) -> None:
    """Fit the head of an index that is being written, if it needs one, and write its manifest.

    Until then what stood there before is untouched.
    """
    fitted = _fitted(store, manifest, encoder, phases)
    written = manifest if fitted is None else fitted.manifest
    store.write_manifest(written)
    store.sweep(written)
    if fitted is not None:
        save_calibration(store, fitted)


def _fitted(
    store: Store, manifest: Manifest, encoder: DualEncoder, phases: Track
) -> FittedIndex | None:
    count = len(manifest.segments)
    segments = [store.open_segment(manifest, number, verify=False) for number in range(count)]
    present = _present(manifest, segments)
    replies = present.part(0, MOST_ANSWERS + 1).candidates()
    if not needs_head(manifest.examples, replies, encoder):
        return None
    return fit_index(store, manifest, segments, encoder, phases=phases)


def save_calibration(store: Store, fitted: FittedIndex) -> None:
    """Write a calibration of the examples that were left out.

    Remove an old one where these are too few.
    """
    calibration = from_held_out(fitted.held_out, fitted.manifest)
    if calibration is None:
        store.remove_file(CALIBRATION)
    else:
        calibration.save(store)
