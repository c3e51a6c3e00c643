"""spaCy: a pipeline component that gives a document the probabilities of its intents.

>>> nlp = spacy.blank("en")                                                       # doctest: +SKIP
>>> nlp.add_pipe("rejoinder_intents", config={"classifier": "runs/intents"})      # doctest: +SKIP
>>> nlp("my new card has not come yet").cats                                      # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rejoinder.errors import MissingExtraError
from rejoinder.intents.classifier import IntentClassifier
from rejoinder.intents.data import OUT_OF_SCOPE
from rejoinder.intents.folder import load_classifier, save_classifier

try:
    from spacy.language import Language
    from spacy.scorer import Scorer
    from spacy.tokens import Doc
    from spacy.training import Example
    from spacy.util import minibatch
except ImportError as error:
    raise MissingExtraError("rejoinder.integrations.spacy", "spacy") from error


@Language.factory(
    "rejoinder_intents", assigns=["doc.cats"], default_score_weights={"cats_score": 1.0}
)
class IntentComponent:
    """Sets `doc.cats` to the probability of each intent.

    `classifier` is a folder written by `rejoinder intents train`. If it refuses texts, there is
    also `oos`: 1.0 for a refused document, otherwise 0.0, so the greatest of `doc.cats` is always
    the answer. A blank document gets none. Categories of other components stay.
    """

    def __init__(self, nlp: Language, name: str, classifier: str) -> None:  # noqa: ARG002 (spaCy gives them)
        self._path = Path(classifier)
        self._classifier: IntentClassifier | None = None
        if self._path.exists():  # a pipeline that was saved has its own
            self._classifier = load_classifier(self._path)

    @property
    def classifier(self) -> IntentClassifier:
        """The classifier; it is opened when it is needed."""
        if self._classifier is None:
            self._classifier = load_classifier(self._path)
        return self._classifier

    @property
    def labels(self) -> tuple[str, ...]:
        """The categories that a document gets; none of a pipeline that is being read."""
        if self._classifier is None and not self._path.exists():
            return ()
        more = () if self.classifier.rejection is None else (OUT_OF_SCOPE,)
        return (*self.classifier.labels, *more)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:  # noqa: ARG002
        """Write the classifier into a pipeline's folder."""
        save_classifier(self.classifier, Path(path), overwrite=True)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> IntentComponent:  # noqa: ARG002
        """Read the classifier that `to_disk` wrote."""
        self._classifier = load_classifier(Path(path))
        return self

    def score(self, examples: Iterable[Example], **options: Any) -> dict[str, Any]:
        """Return the scores of categories, as `nlp.evaluate` shows them."""
        wanted = {"labels": self.labels, "multi_label": self.classifier.multi_label, **options}
        scores: dict[str, Any] = Scorer.score_cats(examples, "cats", **wanted)
        return scores

    def __call__(self, doc: Doc) -> Doc:
        """Set the intents of one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Set the intents of documents, encoding `batch_size` at a time."""
        for docs in minibatch(stream, batch_size):
            spoken = [doc for doc in docs if doc.text.strip()]
            for doc, prediction in zip(
                spoken, self.classifier.predict([doc.text for doc in spoken]), strict=True
            ):
                refused = (
                    {}
                    if prediction.out_of_scope is None
                    else {OUT_OF_SCOPE: float(prediction.out_of_scope)}
                )
                doc.cats = {**doc.cats, **refused, **dict(prediction.ranking)}
            yield from docs
