"""An encoder as a transformer of scikit-learn: texts in, vectors out, for a `Pipeline`.

>>> from sklearn.pipeline import make_pipeline                              # doctest: +SKIP
>>> from sklearn.linear_model import LogisticRegression                     # doctest: +SKIP
>>> make_pipeline(RejoinderEncoder("runs/chats/model"), LogisticRegression(C=30)).fit(texts, labels)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from rejoinder.arrays import unit_rows
from rejoinder.errors import InputError
from rejoinder.intents.encoders import SentenceEncoder, open_encoders
from rejoinder.ranker import FloatArray

_PARAMETERS = ("model", "vectors", "also", "normalize")


class RejoinderEncoder:
    """Encodes texts; learns nothing. It inherits no class of scikit-learn's: the base installation does not have it.

    `model`, the further encoders `also`, and `vectors` are as for `encoders.open_encoder`; `normalize` brings every row
    to unit length. By `fingerprint_`, which `fit` sets, an unpickled transformer refuses another encoder.
    """

    def __init__(
        self, model: str = "minilm", vectors: str = "r", also: Sequence[str] = (), normalize: bool = True
    ) -> None:
        self.model, self.vectors, self.also, self.normalize = model, vectors, also, normalize

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803
        """Open the encoder; X must be a list or an array of texts."""
        _texts(X)
        encoder = self._opened()
        self.fingerprint_, self.n_features_out_ = encoder.fingerprint, encoder.size
        return self

    def transform(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the vectors of n texts, (n, d)."""
        self._check_fitted()
        texts, encoder = _texts(X), self._opened()
        if encoder.fingerprint != self.fingerprint_:
            raise InputError(f"{self.model} is another encoder than the one that was fitted; fit again")
        found = encoder.encode(texts)
        return unit_rows(found) if self.normalize else found

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:  # noqa: N803
        """Fit, then transform."""
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Return the names of the d numbers."""
        self._check_fitted()
        return np.array([f"rejoinderencoder{place}" for place in range(self.n_features_out_)], dtype=object)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **parameters: Any) -> Self:
        """Change arguments of the constructor; an unknown one is a ValueError, as scikit-learn demands."""
        for name, value in parameters.items():
            if name not in _PARAMETERS:
                raise ValueError(f"Invalid parameter {name!r} for {self!r}; valid are {', '.join(_PARAMETERS)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"RejoinderEncoder({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the open encoder."""
        return {name: value for name, value in vars(self).items() if name != "_encoder"}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fingerprint_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def _check_fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)

    def _opened(self) -> SentenceEncoder:
        """Return the encoder that the arguments name, opened once."""
        wanted = (self.model, self.vectors, tuple(self.also))
        if vars(self).get("_encoder", [None])[0] != wanted:
            self._encoder = wanted, open_encoders([self.model, *self.also], self.vectors)
        return self._encoder[1]


def _texts(given: Any) -> list[str]:
    if isinstance(given, str):
        raise InputError("texts are needed as a list, not one text")
    for number, text in enumerate(given):
        if not isinstance(text, str):
            raise InputError(f"item {number} is no text but {type(text).__name__}; a list of texts is needed")
    return [str(text) for text in given]
