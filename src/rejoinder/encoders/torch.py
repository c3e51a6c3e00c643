"""Trained models as their users meet them: texts to vectors or scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rejoinder.arrays import FloatArray, by_length, take
from rejoinder.checks import check_list
from rejoinder.conversations import CONVERSATIONS, Conversation, read_texts
from rejoinder.devices import CPU, chunk_tokens, move, segment_cost, synchronize
from rejoinder.encoders.candidates import candidate_lists
from rejoinder.encoders.conversation import Side, TextEncoder, TruncationCounter
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.networks import inference
from rejoinder.networks.layers import own_scores
from rejoinder.networks.packing import (
    SEGMENT_COST,
    TRANSFORMER_SEGMENT_COST,
    IntArray,
    chunks,
    pack,
)
from rejoinder.networks.transformer import TransformerShape
from rejoinder.progress import Advance
from rejoinder.text.dialogue import Dialogue, join_response
from rejoinder.text.history import HistoryText
from rejoinder.text.pretrained import Pretrained
from rejoinder.text.tokenizer import Tokenizer, in_blocks

CHUNK_NUMBERS = 1 << 24  # numbers of candidates' vectors that are scored at once: 64 MB


class _Model(TruncationCounter):
    """A network with its tokenizer and the folder that it was loaded from.

    It is ready for encoding (see `persistence.load`). Texts, or responses, are cut at `max_length`
    tokens. Models of one `fingerprint` give the same vectors. Pickled is not the network but
    `reopen`, which opens it in another process.
    """

    name: str = ""
    fingerprint: str = ""

    def __init__(
        self,
        module: Any,
        tokenizer: Tokenizer,
        *,
        max_length: int,
        fingerprint: str,
        name: str = "",
        device: torch.device = CPU,
        reopen: Callable[[], Any] | None = None,
    ) -> None:
        self.module = module.eval()
        if device.type != "cpu" and isinstance(tokenizer, Pretrained):
            tokenizer = tokenizer.remembering()  # a card is faster than it reads
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.fingerprint = fingerprint
        self.name = name
        self.device = device
        self.reopen = reopen
        # without padding a text's float products are the same in every batch, so none rounds to
        # another integer
        cost = 0 if inference.is_int8(module) else SEGMENT_COST
        self._segment_cost = segment_cost(device, cost)
        self._chunk_tokens = chunk_tokens(device)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.reopen is None:
            raise InputError(
                "only a model that `rejoinder.load` opened can be pickled;"
                " save this one and load it"
            )
        return _reopened, (self.reopen, self.fingerprint, self._state())

    def _state(self) -> Mapping[str, object]:
        """Return the attributes that the reopened model gets."""
        return {}

    def facts(self) -> Mapping[str, object]:
        """Return what the model is shown by."""
        return {
            "name": self.name,
            "kind": self.module.config.kind,
            "size": self.size,
            "max_length": self.max_length,
            **self._history_facts(),
            "device": str(self.device),
        }

    def _history_facts(self) -> Mapping[str, object]:
        return {}

    @property
    def size(self) -> int:
        """Size d of the vectors."""
        size: int = self.module.output_size
        return size

    @property
    def reduction_size(self) -> int:
        """Size of what `transfer` returns."""
        size: int = self.module.reduction_size
        return size

    def _encode_blocks(
        self,
        blocks: Iterator[tuple[IntArray, IntArray]],
        count: int,
        side: Side,
        advance: Advance | None,
    ) -> FloatArray:
        """Encode texts by their ids, in chunks of like lengths in a block: (n, d)."""
        pieces = []
        places = []
        first = 0
        with torch.inference_mode():
            for ids, lengths in blocks:
                for chosen, batch in chunks(
                    ids, lengths, self.tokenizer.padding_id, self._chunk_tokens, self._segment_cost
                ):
                    encoded = self.module.encode(move(batch, self.device), side)
                    # of a card's, so that the next batch is made while it computes
                    pieces.append(encoded.float().to("cpu", non_blocking=True))
                    places.append(first + chosen)
                    if advance is not None:
                        advance(len(chosen))
                first += len(lengths)
        if not pieces:
            width = self.module.reduction_size if side == "reduction" else self.size
            return np.zeros((0, width), dtype=np.float32)
        synchronize(self.device)
        vectors = np.empty((count, *pieces[0].shape[1:]), dtype=np.float32)
        for chosen, piece in zip(places, pieces, strict=True):
            vectors[chosen] = piece.numpy()
        return vectors


def _reopened(
    reopen: Callable[[], _Model], fingerprint: str, state: Mapping[str, object]
) -> _Model:
    model = reopen()
    if model.fingerprint != fingerprint:
        raise InputError(f"{model.name} is another model than the one that was pickled")
    vars(model).update(state)
    return model


class Encoder(_Model, TextEncoder):
    """Encodes contexts and responses, and scores responses by the cosine."""

    def __init__(self, module: Any, tokenizer: Tokenizer, **options: Any) -> None:
        super().__init__(module, tokenizer, **options)
        self.subject_threshold = module.subject_threshold
        self.opening_weight = module.opening_weight

    def _history_facts(self) -> Mapping[str, object]:
        return {} if self.history is None else {"history": self.history.messages}

    def _state(self) -> Mapping[str, object]:
        return {"_part": self._part}

    @property
    def history(self) -> HistoryText | None:
        """Reading of earlier messages; None: the newest one alone."""
        history: HistoryText | None = self.module.history
        return history

    def _head(self, r: FloatArray, side: Side) -> FloatArray:
        x = torch.from_numpy(r).to(self.device, next(self.module.parameters()).dtype)
        with torch.inference_mode():
            h: FloatArray = self.module.head(side)(x).float().cpu().numpy()
        return h

    def _pool_history(
        self, x: FloatArray, texts: FloatArray, histories: npt.NDArray[np.int64]
    ) -> FloatArray:
        if not self.module.history.apart:
            return super()._pool_history(x, texts, histories)
        with torch.inference_mode():
            pooled: FloatArray = (
                self.module.pool_history(
                    torch.from_numpy(x).to(self.device),
                    torch.from_numpy(texts).to(self.device),
                    torch.from_numpy(histories).to(self.device),
                )
                .cpu()
                .numpy()
            )
        return pooled

    def _combine(self, x: FloatArray, z: FloatArray) -> FloatArray:
        with torch.inference_mode():
            inputs = torch.from_numpy(x).to(self.device)
            histories = torch.from_numpy(z).to(self.device)
            combined: FloatArray = self.module.combine(inputs, histories).cpu().numpy()
        return combined


class _DialogueModel(_Model):
    """A model that reads all messages of a conversation as one text."""

    def __init__(self, module: Any, tokenizer: Tokenizer, **options: Any) -> None:
        super().__init__(module, tokenizer, **options)
        self.dialogue: Dialogue = module.config.dialogue(self.tokenizer, self.max_length)
        if self._segment_cost is not None and isinstance(module.config, TransformerShape):
            self._segment_cost = min(self._segment_cost, TRANSFORMER_SEGMENT_COST)

    @property
    def message_length(self) -> int:
        """Tokens of a response that are read at most; a context loses its oldest messages."""
        return self.dialogue.response_length - self.dialogue.marks

    def _responses(self, responses: Sequence[str]) -> tuple[IntArray, IntArray]:
        ids, lengths = self.dialogue.responses(responses)
        self._count_truncated(responses, lengths - self.dialogue.marks)
        return ids, lengths


class DialogueEncoder(_DialogueModel, DualEncoder):
    """Encodes conversations and responses, and scores responses."""

    @property
    def unit_length(self) -> bool:
        """Return whether rows are of unit length, so that scores are cosines."""
        return getattr(self.module.config, "similarity", "dot") == "cosine"

    def encode_contexts(
        self, contexts: Sequence[Conversation], advance: Advance | None = None
    ) -> FloatArray:
        """Encode conversations: (n, d)."""
        check_list(contexts, CONVERSATIONS)
        conversations = list(contexts)
        blocks = in_blocks(self.dialogue.contexts, conversations)
        return self._encode_blocks(blocks, len(conversations), "context", advance)

    def encode_responses(
        self, responses: Sequence[str], advance: Advance | None = None
    ) -> FloatArray:
        """Encode responses: (n, d)."""
        blocks = in_blocks(self._responses, read_texts(responses))
        return self._encode_blocks(blocks, len(responses), "response", advance)

    def score(
        self, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
    ) -> FloatArray:
        """Return the score of each of a context's candidates: (n, m).

        See `encoders.protocol.Ranker.score`.
        """
        lists = candidate_lists(contexts, candidates)
        scores = np.zeros(lists.shape, dtype=np.float32)
        if not scores.size:
            return scores
        rows = lists.rows
        responses = torch.from_numpy(self.encode_responses(lists.texts))
        size = max(1, CHUNK_NUMBERS // (rows.shape[1] * self.size))
        for start in range(0, len(contexts), size):
            part = slice(start, start + size)
            encoded = torch.from_numpy(DialogueEncoder.encode_contexts(self, contexts[part]))
            with torch.inference_mode():
                scores[part] = own_scores(
                    encoded, responses[torch.from_numpy(rows[part]).long()]
                ).numpy()
        return scores


class PolyDialogueEncoder(DialogueEncoder):
    """Encodes a conversation as several vectors (POLY, section 4.4); see `DialogueEncoder`."""

    def encode_contexts(  # type: ignore[override]  # several vectors are another protocol
        self, contexts: Sequence[Conversation], advance: Advance | None = None
    ) -> ContextVectors:
        """Encode conversations: m vectors each, fewer where a conversation has fewer tokens."""
        vectors = super().encode_contexts(contexts, advance)
        if vectors.ndim == 2:  # no conversation at all
            vectors = vectors[:, None]
        present = (vectors != 0).any(axis=2)
        return ContextVectors(vectors, None if present.all() else present)


class CrossRanker(_DialogueModel):
    """Scores responses by reading each with its context (fulfils `encoders.protocol.Ranker`)."""

    real_tokens = 0  # read so far, without and with padding
    computed_tokens = 0

    def score(
        self, contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
    ) -> FloatArray:
        """Return the score of each of a context's candidates: (n, m).

        See `encoders.protocol.Ranker.score`.
        """
        lists = candidate_lists(contexts, candidates)
        scores = np.zeros(lists.shape, dtype=np.float32)
        if not scores.size:
            return scores
        context_ids, context_lengths = self.dialogue.contexts(contexts)
        response_ids, response_lengths = self._responses(lists.texts)
        context_rows = np.repeat(np.arange(len(contexts), dtype=np.int32), lists.shape[1])
        response_rows = lists.rows.reshape(-1)
        flat = scores.reshape(-1)
        start = len(self.dialogue.start)
        pieces = []
        places = []
        with torch.inference_mode():
            total = context_lengths[context_rows] + response_lengths[response_rows]
            for chosen in by_length(total, self._chunk_tokens):
                context = take(context_ids, context_lengths, context_rows[chosen])
                response = take(response_ids, response_lengths, response_rows[chosen])
                ids, lengths, types = join_response(context, response, start)
                batch = pack(ids, lengths, self.tokenizer.padding_id, self._segment_cost, types)
                self.real_tokens += batch.real_tokens
                self.computed_tokens += batch.computed_tokens
                output = self.module.score(move(batch, self.device))
                pieces.append(output.float().to("cpu", non_blocking=True))
                places.append(chosen)
        synchronize(self.device)
        for chosen, piece in zip(places, pieces, strict=True):
            flat[chosen] = piece.numpy()
        return scores
