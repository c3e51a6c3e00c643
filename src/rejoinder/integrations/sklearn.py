"""scikit-learn: a transformer of texts or conversations, and a classifier of intents.

Both work in scikit-learn's pipelines and searches.

>>> from sklearn.pipeline import make_pipeline  # doctest: +SKIP
>>> from sklearn.linear_model import LogisticRegression  # doctest: +SKIP
>>> steps = RejoinderEncoder("runs/chats/model"), LogisticRegression(C=30)  # doctest: +SKIP
>>> make_pipeline(*steps).fit(texts, labels)  # doctest: +SKIP
>>> intents = RejoinderIntents("bi-small").fit(texts, labels)  # doctest: +SKIP
>>> intents.predict(["I lost my card"])  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.checks import check_column
from rejoinder.conversations import TEXTS, read_contexts
from rejoinder.encoders.open import open_all
from rejoinder.encoders.sentence import SentenceEncoder
from rejoinder.errors import InputError, MissingExtraError, shown
from rejoinder.intents.classifier import IntentClassifier, train_classifier
from rejoinder.intents.data import OUT_OF_SCOPE, IntentData, TrainingTexts
from rejoinder.intents.heads import Logistic

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, check_is_fitted
except ImportError as error:
    raise MissingExtraError("rejoinder.integrations.sklearn", "intents") from error


class _OfTexts(BaseEstimator):
    """Base of estimators that take texts instead of rows of numbers, and open encoders by name."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return everything except the open encoder."""
        return {name: value for name, value in super().__getstate__().items() if name != "_encoder"}

    def _opened(self) -> SentenceEncoder:
        """Return the encoder that the arguments name, opened once."""
        wanted = (self.model, self.vectors, tuple(self.also))
        if vars(self).get("_encoder", [None])[0] != wanted:
            self._encoder = wanted, open_all([self.model, *self.also], self.vectors)
        opened: SentenceEncoder = self._encoder[1]
        return opened

    def _fitted(self) -> SentenceEncoder:
        check_is_fitted(self)
        encoder = self._opened()
        if encoder.fingerprint != self.fingerprint_:
            raise InputError(f"{self.model} is not the encoder that was fitted; fit again")
        return encoder


class RejoinderEncoder(TransformerMixin, _OfTexts):
    """Encodes texts; has nothing to fit.

    `model`, the further encoders `also`, and `vectors` are as for `encoders.open.open_texts`;
    `normalize` brings every row to unit length. With `vectors="h"` of a Rejoinder model an item may
    also be a conversation, oldest message first. `fit` sets `fingerprint_`, by which an unpickled
    transformer refuses another encoder.
    """

    def __init__(
        self,
        model: str = "minilm",
        vectors: str = "r",
        also: Sequence[str] = (),
        normalize: bool = True,
    ) -> None:
        self.model = model
        self.vectors = vectors
        self.also = also
        self.normalize = normalize

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803
        """Open the encoder; X must be a list or an array of texts."""
        encoder = self._opened()
        _items(X, encoder)
        self.fingerprint_ = encoder.fingerprint
        self.n_features_out_ = encoder.size
        return self

    def transform(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the vectors of n texts, (n, d)."""
        encoder = self._fitted()
        vectors = encoder.encode(_items(X, encoder))
        return unit_rows(vectors) if self.normalize else vectors

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> FloatArray:  # noqa: N803
        """Fit and return the vectors of n texts, (n, d); a generator is read once."""
        texts = list(X) if isinstance(X, Iterator) else X
        vectors: FloatArray = super().fit_transform(texts, y, **fit_params)
        return vectors

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Return the names of the d columns."""
        check_is_fitted(self)
        return np.array(
            [f"rejoinderencoder{column}" for column in range(self.n_features_out_)], dtype=object
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def _refuses_nothing(intents: RejoinderIntents) -> bool:
    return not hasattr(intents, "classifier_") or intents.classifier_.rejection is None


class RejoinderIntents(ClassifierMixin, _OfTexts):
    """Learns intents from a few texts each, and refuses texts that have none of the intents.

    It trains like `rejoinder intents train`. Texts with the label `oos` teach it what to refuse;
    `predict` returns that label for a refused text. `model`, `vectors` and `also` are as for
    `RejoinderEncoder`, and `strength` is scikit-learn's C. `fit` sets `classifier_`, which gives
    more details of a text (`intents.classifier.IntentClassifier.predict`).
    """

    def __init__(
        self,
        model: str = "minilm",
        vectors: str = "r",
        also: Sequence[str] = (),
        strength: float = 30.0,
    ) -> None:
        self.model = model
        self.vectors = vectors
        self.also = also
        self.strength = strength

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on texts (n,) and their labels (n,).

        Fewer than two intents are a ValueError, as in scikit-learn.
        """
        encoder = self._opened()
        texts = _items(X)
        check_consistent_length(texts, y)
        check_classification_targets(y)
        labels = [str(label) for label in y]
        data = IntentData(tuple(texts), tuple((label,) for label in labels))
        inside = data.rows([row for row, label in enumerate(labels) if label != OUT_OF_SCOPE])
        oos_texts = tuple(
            text for text, label in zip(texts, labels, strict=True) if label == OUT_OF_SCOPE
        )
        if len(inside.names) < 2:
            named = ", ".join(inside.names) or OUT_OF_SCOPE
            raise ValueError(
                f"texts of one class ({named}) teach nothing; give texts of two or more intents"
            )
        settings = Logistic(strength=self.strength)
        self.classifier_ = train_classifier(
            encoder, TrainingTexts(inside, oos_texts=oos_texts), settings
        )
        self.classes_ = np.unique(np.asarray(y))
        self.fingerprint_ = encoder.fingerprint
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the label of each text, (n,); `oos` for a refused text."""
        predictions = self._classifier().predict(_items(X))
        known = {str(label): position for position, label in enumerate(self.classes_)}
        return self.classes_[
            [known[(*prediction.labels, OUT_OF_SCOPE)[0]] for prediction in predictions]
        ]

    @available_if(_refuses_nothing)
    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the probability of each of `classes_`, (n, K).

        It is not available after `oos`, which has a threshold.
        """
        rankings = [
            dict(prediction.ranking) for prediction in self._classifier().predict(_items(X))
        ]
        return np.array([[ranking[str(label)] for label in self.classes_] for ranking in rankings])

    def __getstate__(self) -> dict[str, Any]:
        """Return everything except the open encoder."""
        state = super().__getstate__()
        if "classifier_" in state:
            state["classifier_"] = replace(state["classifier_"], encoder=None)
        return state

    def _classifier(self) -> IntentClassifier:
        """Return the classifier with its encoder, which a copy opens again."""
        encoder = self._fitted()
        if self.classifier_.encoder is not encoder:
            self.classifier_ = replace(self.classifier_, encoder=encoder)
        return self.classifier_


def _items(texts: Any, encoder: SentenceEncoder | None = None) -> list[Any]:
    """Return texts as a list.

    If the encoder reads contexts, lists of texts are conversations.
    """
    if isinstance(texts, str):
        raise InputError("give a list of texts, not one text")
    if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        raise InputError(f"{TEXTS}; given: {shown(texts)}")
    check_column(texts)
    items = list(texts)
    for number, item in enumerate(items):
        if isinstance(item, str):
            items[number] = str(item)
        elif isinstance(item, list | tuple) and encoder is not None and encoder.vectors == "h":
            (items[number],) = read_contexts([item])
        else:
            raise InputError(
                f"item {number} is not a text but {type(item).__name__}; give a list of texts,"
                ' or of conversations with vectors="h" of a Rejoinder model'
            )
    return items
