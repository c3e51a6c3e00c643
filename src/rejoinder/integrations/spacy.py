"""spaCy: a pipeline component that gives a document the probabilities of its intents.

>>> nlp = spacy.blank("en")                                                       # doctest: +SKIP
>>> nlp.add_pipe("rejoinder_intents", config={"classifier": "runs/intents"})      # doctest: +SKIP
>>> nlp("my new card has not come yet").cats                                      # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rejoinder.errors import MissingExtraError
from rejoinder.intents.classifier import IntentClassifier
from rejoinder.intents.data import OUT_OF_SCOPE
from rejoinder.intents.folder import FOLDER, load_classifier, save_classifier

try:
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.scorer import Scorer
    from spacy.tokens import Doc
    from spacy.training import Example
    from spacy.util import from_bytes, minibatch, to_bytes
except ImportError as error:
    raise MissingExtraError("rejoinder.integrations.spacy", "spacy") from error


@Language.factory(
    "rejoinder_intents", assigns=["doc.cats"], default_score_weights={"cats_score": 1.0}
)
class IntentComponent(Pipe):
    """Sets `doc.cats` to the probability of each intent.

    `classifier` is a folder written by `rejoinder intents train`. If it refuses texts, there is
    also `oos`: 1.0 for a refused document, otherwise 0.0, so the greatest of `doc.cats` is always
    the answer. A blank document gets none. Categories of other components stay.
    """

    def __init__(self, nlp: Language, name: str, classifier: str) -> None:  # noqa: ARG002 (spaCy gives it)
        self.name = name
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

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:  # noqa: ARG002
        """Return the files of the classifier, for a pipeline in bytes."""
        with TemporaryDirectory() as place:
            folder = Path(place, "classifier")
            self.to_disk(folder)
            return to_bytes({name: Path(folder, name).read_bytes for name in FOLDER.files}, ())

    def from_bytes(self, packed: bytes, *, exclude: Iterable[str] = ()) -> IntentComponent:  # noqa: ARG002
        """Read the classifier that `to_bytes` packed."""
        with TemporaryDirectory() as place:
            from_bytes(packed, {name: Path(place, name).write_bytes for name in FOLDER.files}, ())
            return self.from_disk(place)

    def score(self, examples: Iterable[Example], **options: Any) -> dict[str, Any]:
        """Return the scores of categories, as `nlp.evaluate` shows them."""
        wanted = {"labels": self.labels, "multi_label": self.classifier.multi_label, **options}
        scores: dict[str, Any] = Scorer.score_cats(examples, "cats", **wanted)
        return scores

    def __call__(self, doc: Doc) -> Doc:
        """Set the intents of one document."""
        self._classify([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Set the intents of documents, encoding `batch_size` at a time.

        The pipeline's error handler gets a batch that fails.
        """
        handle = self.get_error_handler()
        for docs in minibatch(stream, batch_size):
            try:
                self._classify(docs)
            except Exception as error:  # noqa: BLE001 (the handler decides)
                handle(self.name, self, docs, error)
            else:
                yield from docs

    def _classify(self, docs: Sequence[Doc]) -> None:
        spoken = [doc for doc in docs if doc.text.strip()]
        predictions = self.classifier.predict([doc.text for doc in spoken])
        for doc, prediction in zip(spoken, predictions, strict=True):
            refused = (
                {}
                if prediction.out_of_scope is None
                else {OUT_OF_SCOPE: float(prediction.out_of_scope)}
            )
            doc.cats = {**doc.cats, **refused, **dict(prediction.ranking)}
