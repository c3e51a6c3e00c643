"""A search: options, queries, candidates, the choice among them, replies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.checks import check_list
from rejoinder.conversations import CONVERSATIONS, Conversation
from rejoinder.documents import Described
from rejoinder.encoders.conversation import TruncationCounter
from rejoinder.encoders.multilingual import is_multilingual
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import DualEncoder, encode_queries, has_unit_vectors
from rejoinder.encoders.vectors import ContextVectors, check_vectors
from rejoinder.errors import InputError
from rejoinder.retrieval.choice.chooser import Chooser, read_said
from rejoinder.retrieval.choice.closings import Closings, closings_of, may_be_closing
from rejoinder.retrieval.choice.opposites import is_denied
from rejoinder.retrieval.encoding.familiarity import Familiarity
from rejoinder.retrieval.hybrid import find_hybrid
from rejoinder.retrieval.index_speller import IndexSpeller
from rejoinder.retrieval.index_words import IndexWords
from rejoinder.retrieval.options import ANY_SCORE, SearchOptions, Silence, Where
from rejoinder.retrieval.queries import Queries, encode, make_queries, read_conversations_in_parts
from rejoinder.retrieval.replies import Reply, explain
from rejoinder.retrieval.state import FilteredRows, IndexState
from rejoinder.retrieval.turns import Reading, Spelling, read_parts
from rejoinder.stores.manifest import Manifest
from rejoinder.stores.models import check_model
from rejoinder.stores.scan import Found
from rejoinder.text.polarity import takes_side
from rejoinder.text.words.spelling import Speller


class Searchable:
    """A source of replies that is searched by options."""

    rerank = 0  # number of best replies that a slow ranker orders again

    @abstractmethod
    def find(self, contexts: Sequence[Conversation], options: SearchOptions) -> list[list[Reply]]:
        """Find the best replies to each context; see `search`."""

    def search(
        self,
        contexts: Sequence[Conversation],
        k: int = SearchOptions.k,
        minimum_score: float | None = SearchOptions.minimum_score,
        **options: Any,
    ) -> list[list[Reply]]:
        """Find the best `k` replies to each context, best first.

        Equal scores are in the order of their positions. `contexts` are conversations, each a list
        of messages, oldest first. `options` are further fields of `SearchOptions`, which `find`
        takes as a whole.

        Raises:
            InputError: a number is out of its range, options exclude each other, or no reply has a
                field of `where`.
            TypeError: there is no such option.
        """
        options.setdefault("rerank", self.rerank)
        search_options = SearchOptions(k=k, minimum_score=minimum_score, **options)
        return self.find(contexts, search_options)

    def reply(
        self, conversation: str | Conversation, k: int = SearchOptions.k, **options: Any
    ) -> list[Reply]:
        """Find the best `k` replies to one message, or one conversation; see `search`.

        >>> index.reply("my card was stolen")[0].text  # doctest: +SKIP
        """
        context = [conversation] if isinstance(conversation, str) else conversation
        [replies] = self.search([context], k, **options)
        return replies


class Searcher(Searchable, Described):
    """An index of encoded replies in one state."""

    def __init__(self, state: IndexState, encoder: DualEncoder | None) -> None:
        self.store = state.store
        self.encoder = encoder
        self._state = state
        self._words = IndexWords()
        self._speller = IndexSpeller()

    @property
    def manifest(self) -> Manifest:
        """The manifest of the index as it is now."""
        return self._state.manifest

    def __len__(self) -> int:
        return self._state.present

    def find(self, contexts: Sequence[Conversation], options: SearchOptions) -> list[list[Reply]]:
        """Find the best replies to each context; see `search`."""
        queries = encode(self._model(), contexts, options, self.spelling())
        return self._find(queries, options)

    def search_vectors(
        self,
        vectors: FloatArray | ContextVectors,
        options: SearchOptions | None = None,
        *,
        inputs: Sequence[str] = (),
        forbidden: Sequence[frozenset[str]] | None = None,
        counts: Sequence[int] | None = None,
        foreign: Sequence[bool] = (),
    ) -> list[list[Reply]]:
        """Find the best replies to contexts that are encoded already: (n, d), or (n, m, d).

        The index's model encoded them. `inputs` are the newest messages, or their parts: without
        them there is no hybrid search, words change no scores, and no reply is known to answer the
        opposite, so scores may differ from those of `search`. `forbidden` is, for each
        conversation, what `queries.forbidden_keys` returns; None: every reply may be found.
        `counts` says how many contexts, one after the other, are parts of each conversation; None:
        one. `foreign` says which messages are of another language: the replies to these lose
        `familiarity.FOREIGN` of their scores if they have titles or examples.
        """
        if not isinstance(vectors, ContextVectors):
            vectors = check_vectors(vectors, "context")
        unit = has_unit_vectors(self.encoder)
        queries = make_queries(
            vectors,
            inputs=inputs,
            forbidden=forbidden,
            unit=unit,
            counts=counts,
            foreign=foreign,
        )
        return self._find(queries, options or SearchOptions())

    def _find(
        self, queries: Queries, options: SearchOptions, *, keeps_opposites: bool = False
    ) -> list[list[Reply]]:
        """Return replies to each conversation; ask for more candidates until k may be given.

        Those that answer the opposite of a message are pushed back, if not `keeps_opposites`.
        """
        if options.rerank or options.minimum_confidence is not None:
            raise InputError(
                "an index alone has no slow ranker and no calibration; "
                "take Cascade or CalibratedIndex"
            )
        filtered = self._filter(options.where)  # all that follows reads this one state
        if options.minimum_score is None and filtered.manifest.head is not None:
            options = replace(options, minimum_score=filtered.manifest.head.minimum_score)
        familiarity = self._familiarity(queries, filtered)
        first = options
        if familiarity and options.minimum_score is not None:
            lowest = options.minimum_score - familiarity.largest_change
            first = replace(options, minimum_score=lowest)
        replies: list[list[Reply]] = [[] for _ in queries.rows]
        if not filtered.count:
            return replies
        self._check_size(queries, filtered.manifest)
        chooser = Chooser(
            queries=queries,
            filtered=filtered,
            options=options,
            familiarity=familiarity,
            closings=self._closings,
            keeps_opposites=keeps_opposites,
        )
        wanted = _first_count(options, filtered.manifest)
        left = list(range(len(replies)))  # contexts that have too few replies so far
        while left:
            rows = [row for i in left for row in queries.rows[i]]
            candidate_lists = iter(
                find_candidates(filtered, queries, rows, min(wanted, filtered.count), first)
            )
            short = []
            for i in left:
                own = [next(candidate_lists) for _ in queries.rows[i]]
                chosen = chooser.replies(i, own, wanted)
                if chosen is None:
                    short.append(i)
                else:
                    replies[i] = chosen
            left = short
            wanted *= 4
        if options.why:
            return explain(self._model(), queries, replies, plain=filtered.manifest.plain)
        return replies

    def _familiarity(self, queries: Queries, filtered: FilteredRows) -> Familiarity | None:
        """Return what scores change by; words count where those of the messages are known."""
        head = filtered.manifest.head
        if head is None:
            return None
        encoder: Any = self.encoder
        return Familiarity(
            head.word_weight if queries.inputs else 0.0,
            filtered.density,
            head.density_end,
            reads_english_alone=isinstance(encoder, TruncationCounter),
        )

    def _closings(self) -> Closings | None:
        """Return what tells messages that close a matter.

        None where the model is not open, as for given vectors, or reads no English.
        """
        is_unknown = self.encoder is None or self.spelling() is None
        return None if is_unknown else closings_of(self._model())

    def count(self, where: Where | None = None) -> int:
        """Return how many replies a search can find; see `search`."""
        return self._filter(where).count

    def read(self, contexts: Sequence[Conversation], history: int | None) -> list[Reading]:
        """Return what `search` reads of conversations."""
        return read_conversations_in_parts(self._model(), contexts, history, self.spelling())

    def notes(
        self, contexts: Sequence[Conversation], history: int | None = None
    ) -> list[dict[str, Any]]:
        """Return how the newest message of each conversation is read, where not as it came.

        `parts` counts what it is searched by, `cut` says that some of it is not read, `corrected`
        has its typos, and `language` is "unknown" where most words are neither English nor of the
        index.
        """
        check_list(contexts, CONVERSATIONS)
        return [
            read_parts(context, history, self.spelling()).message.notes() for context in contexts
        ]

    def silence(
        self, context: Conversation, options: SearchOptions | None = None
    ) -> Silence | None:
        """Return why a search for a conversation found nothing; None: no reply is near enough.

        "language": its newest message is of another language; "denied": what is nearest to it
        answers the opposite.
        """
        settings = options or SearchOptions()
        message = read_parts(context, settings.history, self.spelling()).message
        if message.is_foreign:
            return "language"
        if not (takes_side(message.text) or any(map(may_be_closing, message.parts))):
            return None
        # The nearest before opposites are pushed back: behind `k` others it would not be seen.
        nearest = replace(settings, k=1, minimum_score=ANY_SCORE, minimum_confidence=None, rerank=0)
        queries = encode(self._model(), [context], nearest, self.spelling())
        [replies] = self._find(queries, nearest, keeps_opposites=True)
        lowest = settings.minimum_score
        head = self.manifest.head
        if lowest is None and head is not None:
            lowest = head.minimum_score
        lowest = ANY_SCORE if lowest is None else lowest
        parts = read_said(queries, 0, self._closings)
        return "denied" if is_denied(replies, parts, lowest) else None

    def encode_contexts(self, contexts: Sequence[Conversation]) -> list[FloatArray]:
        """Return the vectors, (m, d), with which each context is searched for."""
        encoder = self._model()
        vectors = encode_queries(
            encoder, [read_parts(context, None).context for context in contexts]
        )
        queries = make_queries(vectors, inputs=(), forbidden=None, unit=encoder.unit_length)
        self._check_size(queries, self.manifest)
        return queries.vectors

    def spelling(self) -> Spelling:
        """Return what reads messages as English; None where the model reads other languages."""
        return None if is_multilingual(self._model()) else self._make_speller

    def _make_speller(self) -> Speller:
        """Return what corrects messages, by the words of the replies, titles and examples."""
        return self._speller.of(self._state)

    def _filter(self, where: Where | None) -> FilteredRows:
        """Return the replies that pass, of the index as it is now."""
        state = self._state
        return state.filtered(where, partial(self._words.of, state))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model's fingerprint and of the content of all replies and vectors."""
        return self.manifest.fingerprint

    def use(self, encoder: DualEncoder) -> None:
        """Take an opened model; one that the index was not built with is an InputError."""
        check_model(self.store, self.manifest.model, encoder)
        self.encoder = encoder

    def _model(self) -> DualEncoder:
        if self.encoder is None:
            self.use(open_encoder(self.manifest.model.locate(self.store)))
        assert self.encoder is not None
        return self.encoder

    def _check_size(self, queries: Queries, manifest: Manifest) -> None:
        for vectors in queries.vectors:
            if vectors.shape[1] != manifest.size:
                raise InputError(
                    f"queries of size {vectors.shape[1]}; "
                    f"the vectors of {self.store} have {manifest.size}"
                )


def _first_count(options: SearchOptions, manifest: Manifest) -> int:
    """Return how many candidates are asked for first.

    A scan reads all vectors, so one shall do: some candidates are near-duplicates.
    """
    spare = 0 if manifest.approximate else options.pool // 2
    return options.pool + spare


def find_candidates(
    filtered: FilteredRows, queries: Queries, chosen: Sequence[int], k: int, options: SearchOptions
) -> Found:
    """Return the best k, by score or by score and words, for some contexts, by their numbers."""
    minimum = (
        -np.inf if options.minimum_score is None else options.minimum_score * queries.sharpness
    )
    if options.hybrid:
        return find_hybrid(
            filtered, queries, chosen, k, minimum, options.hybrid * queries.sharpness
        )
    return filtered.candidates([queries.vectors[i] for i in chosen], k, minimum)
