"""SIM and MAP: rankers that compare the vectors of a pretrained encoder, as they are or through a linear map.

Source: Henderson and others, "A Repository of Conversational Datasets" (2019), section 4.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rejoinder.baselines.encoders import VectorEncoder
from rejoinder.baselines.fitting import Progress, at_least, not_fitted
from rejoinder.baselines.mapping import MapSettings, Similarity
from rejoinder.baselines.search import Hits, best, check_k, common_length, number_texts, rows_of_each_list
from rejoinder.corpora.example import Example
from rejoinder.ranker import Context, FloatArray

FEWEST = 10
"""Examples without which MAP cannot be trained."""

HISTORY = 10
"""Earlier messages that are read with history, the newest ones: as many as by multi-context ConveRT."""

QUERIES = 1024
"""Contexts that are searched for at once."""


class Sim:
    """Ranks by the cosine of two encodings, behind the `Ranker` protocol; it learns nothing.

    Args:
        encoder: gives the vectors; of any length, a zero vector scores 0.
    """

    def __init__(self, encoder: VectorEncoder) -> None:
        self.encoder = encoder

    def score(self, contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> FloatArray:
        """Score each context's own candidates; see `Ranker.score`.

        Raises:
            InputError: not one list for each context, or lists of different lengths.
        """
        width = common_length(contexts, candidates)
        scores = np.zeros((len(contexts), width), dtype=np.float32)
        if not scores.size:
            return scores
        texts, columns = number_texts(candidates)
        responses = self._responses(texts)
        queries = unit(self.encoder.encode_contexts(contexts))
        for key, rows in rows_of_each_list(candidates).items():
            scores[rows] = queries[rows] @ responses[columns[key]].T
        return scores

    def encode_contexts(self, contexts: Sequence[Context]) -> FloatArray:
        """What is compared of contexts; see `ranker.DualEncoder`."""
        return unit(self.encoder.encode_contexts(contexts))

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """What is compared of responses; see `ranker.DualEncoder`."""
        return self._responses(responses)

    def index(self, texts: Sequence[str]) -> VectorIndex:
        """Make texts searchable."""
        return VectorIndex(self, self._responses(texts))

    def _responses(self, texts: Sequence[str]) -> FloatArray:
        return unit(self.encoder.encode_responses(texts))


class WithHistory:
    """An encoder of single texts that also reads up to ten earlier messages (a `VectorEncoder`).

    A context becomes the mean of two vectors of unit length: the newest message's, and that of the mean over the
    earlier ones; without any the first alone. Nothing is learned, so it is what a sentence encoder can do with history.

    Args:
        encoder: gives a vector of each message.
    """

    def __init__(self, encoder: VectorEncoder) -> None:
        self._encoder = encoder

    def encode_contexts(self, contexts: Sequence[Context], advance: Progress | None = None) -> FloatArray:
        """See `VectorEncoder.encode_contexts`."""
        newest = unit(self._encoder.encode_contexts([context[-1:] for context in contexts], advance))
        earlier = [[message for message in context[:-1] if message.strip()][-HISTORY:] for context in contexts]
        messages = [[message] for spoken in earlier for message in spoken]
        if not messages:
            return newest
        vectors = unit(self._encoder.encode_contexts(messages))
        sums = np.zeros_like(newest)
        np.add.at(sums, np.repeat(np.arange(len(contexts)), [len(spoken) for spoken in earlier]), vectors)
        mean: FloatArray = (newest + unit(sums)) / np.float32(2)
        return mean

    def encode_responses(self, responses: Sequence[str], advance: Progress | None = None) -> FloatArray:
        """See `VectorEncoder.encode_responses`."""
        return self._encoder.encode_responses(responses, advance)


class Map(Sim):
    """Ranks by x·((W + a·I) y) with a learned W (fulfils `fitting.Fitted`); see `mapping`.

    Args:
        encoder: gives the vectors x of contexts and y of responses.
        settings: of the training, and what ranks.
    """

    def __init__(self, encoder: VectorEncoder, settings: MapSettings | None = None) -> None:
        super().__init__(encoder)
        self.settings = settings or MapSettings()
        self._matrix: FloatArray | None = None
        self._similarity: Similarity = "cosine"

    def fit(self, examples: Sequence[Example], progress: Progress | None = None) -> Mapping[str, Any]:
        """Learn W and the scalar a; see `Fitted.fit`.

        What is returned holds the learning curve of every setting. Where no map is better than none on the examples
        that choose, the epoch is 0 and Map ranks as Sim does.
        """
        import torch

        from rejoinder.baselines.mapping import Curve, learn

        at_least(examples, FEWEST, "MAP")
        responses = [example.response for example in examples]
        numbers: dict[str, int] = {}
        number = torch.tensor([numbers.setdefault(text, len(numbers)) for text in responses])
        x = unit(self.encoder.encode_contexts([example.context for example in examples], progress))
        y = unit(self.encoder.encode_responses(responses, progress))
        with torch.inference_mode():
            found = learn(torch.from_numpy(x), torch.from_numpy(y), number, self.settings)
        self._matrix, self._similarity = found.matrix.numpy(), found.similarity
        chosen = found.curves[found.best] if found.epoch else Curve(0.0, 0.0, [found.unmapped])
        return {
            "examples": len(examples),
            "similarity": found.similarity,
            "learning_rate": chosen.learning_rate,
            "l2": chosen.penalty,
            "epoch": found.epoch,
            "recall_at_1": chosen.recall[max(found.epoch, 1) - 1],
            "recall_at_1_unmapped": found.unmapped,
            "curves": [curve.to_json() for curve in found.curves],
        }

    def _responses(self, texts: Sequence[str]) -> FloatArray:
        if self._matrix is None:
            raise not_fitted("MAP")
        if not texts:  # vectors of no text have no size
            return np.zeros((0, len(self._matrix)), dtype=np.float32)
        mapped: FloatArray = super()._responses(texts) @ self._matrix.T
        return unit(mapped) if self._similarity == "cosine" else mapped


class VectorIndex:
    """Texts by their vectors; made by `Sim.index` or `Map.index`."""

    def __init__(self, ranker: Sim, responses: FloatArray) -> None:
        self._ranker, self._responses = ranker, responses

    def __len__(self) -> int:
        return len(self._responses)

    def search(self, contexts: Sequence[Context], k: int = 10) -> Hits:
        """The k best of all indexed texts for each context.

        Raises:
            InputError: k is below 1.
        """
        check_k(k)
        if not len(self):
            return best(np.zeros((len(contexts), 0)), k)
        found = [best(np.zeros((0, len(self))), k)]
        for start in range(0, len(contexts), QUERIES):
            queries = unit(self._ranker.encoder.encode_contexts(contexts[start : start + QUERIES]))
            found.append(best((queries @ self._responses.T).astype(np.float64), k))
        return Hits(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def unit(vectors: FloatArray) -> FloatArray:
    """The rows at unit length; a zero row stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: FloatArray = vectors / np.maximum(lengths, np.float32(1e-12))
    return scaled
