"""spaCy: a pipeline component that gives a document the probabilities of its intents.

>>> nlp = spacy.blank("en")                                                       # doctest: +SKIP
>>> nlp.add_pipe("rejoinder_intents", config={"classifier": "runs/intents"})      # doctest: +SKIP
>>> nlp("my new card has not come yet").cats                                      # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rejoinder.errors import MissingExtraError
from rejoinder.intents.classifier import load_classifier
from rejoinder.intents.data import OUT_OF_SCOPE

try:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.util import minibatch
except ImportError as error:
    raise MissingExtraError("rejoinder.integrations.spacy", "spacy") from error


@Language.factory("rejoinder_intents", assigns=["doc.cats"])
class IntentComponent:
    """Sets `doc.cats` to the probability of each intent.

    `classifier` is a folder written by `rejoinder intents train`. If it refuses texts, there is
    also `oos`: 1.0 for a refused document, otherwise 0.0, so the greatest of `doc.cats` is always
    the answer. A blank document gets none.
    """

    def __init__(self, nlp: Language, name: str, classifier: str) -> None:  # noqa: ARG002 (spaCy gives them)
        self.classifier = load_classifier(Path(classifier))

    def __call__(self, doc: Doc) -> Doc:
        """Set the intents of one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Set the intents of documents, encoding `batch_size` at a time."""
        for docs in minibatch(stream, batch_size):
            spoken = [doc for doc in docs if doc.text.strip()]
            for doc, found in zip(
                spoken, self.classifier.predict([doc.text for doc in spoken]), strict=True
            ):
                refused = (
                    {} if found.out_of_scope is None else {OUT_OF_SCOPE: float(found.out_of_scope)}
                )
                doc.cats = refused | dict(found.ranking)
            yield from docs
