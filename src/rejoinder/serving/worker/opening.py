"""The opening of an index and of the models beside it, before a server takes requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.encoders.onnx.folder import MANIFEST as ONNX
from rejoinder.encoders.open import open_encoder
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.worker.sources import Sources

if TYPE_CHECKING:
    from rejoinder.intents.classifier import IntentClassifier
    from rejoinder.intents.onnx import OnnxIntents

FIRST_CONVERSATIONS = (
    ("Hello!", "How are you?"),
    ("I forgto my pasword",),
    ("Found it, thank you!",),
)
"""What a server answers before it takes requests: much is made once, for typos and closings too."""


def open_answers(sources: Sources) -> Answers:
    """Open all of it, and compute once, since the first computation is slow."""
    store = sources.store
    name = sources.model or store.read_manifest().model.locate(store)
    opened = open_encoder(name, engine=sources.engine, light=True, device=sources.device)
    encoder = opened.with_recent()
    ranker = None
    if sources.ranker is not None:
        assert sources.open_ranker is not None
        ranker = sources.open_ranker(sources.ranker)
    answers = Answers(
        sources,
        Index.open(store, encoder),
        encoder,
        ranker=ranker,
        classifier=None if sources.intents is None else open_classifier(sources.intents),
    )
    try:
        answers.index.search(FIRST_CONVERSATIONS, 1)
        if sources.calibrated:
            answers.calibrated()
        encoder.encode_responses(["Hello!"])
        answers.second = None if sources.second is None else open_answers(sources.second)
    except BaseException:
        answers.close()
        raise
    return answers


def open_classifier(folder: Path) -> IntentClassifier | OnnxIntents:
    """Open a classifier, or its ONNX folder, which needs no PyTorch."""
    if (folder / ONNX).is_file():
        from rejoinder.intents.onnx import OnnxIntents

        return OnnxIntents(folder)
    from rejoinder.intents.folder import load_classifier

    return load_classifier(folder)
