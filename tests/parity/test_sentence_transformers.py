"""The exported folder in the real library sentence-transformers, against our own vectors."""

import json

import numpy as np
import pytest
import torch

import rejoinder
from rejoinder.encoders.export.sentence_module import export_sentence_transformers
from tests.encoders.conftest import saved

sentence_transformers = pytest.importorskip("sentence_transformers", "6")
pytestmark = pytest.mark.slow
TEXTS = ["how are you?", "", "x", "see the cat " * 30, "hello there", "fine, thanks", "bye! " * 7]
CONVERSATIONS = [
    ["hello", "how are you?"],
    ["x"],
    ["a", "  ", "b", "see"],
    ["see the cat " * 30, "yes"],
]


@pytest.fixture(scope="module", params=[0, 10])
def folders(request, tmp_path_factory):
    """A single-context and a multi-context model: our folder and the exported one."""
    place = tmp_path_factory.mktemp("models")
    export_sentence_transformers(saved(place / "model", history=request.param), place / "exported")
    return place / "model", place / "exported"


def opened(folder):
    return sentence_transformers.SentenceTransformer(
        str(folder), device="cpu", trust_remote_code=True
    )


def test_the_same_vectors(folders):
    ours, theirs = rejoinder.load(folders[0], precision="fp32"), opened(folders[1])
    contexts, responses = (
        ours.encode_contexts([[text] for text in TEXTS]),
        ours.encode_responses(TEXTS),
    )
    for batch_size in (1, 3, 32):
        assert np.abs(theirs.encode_query(TEXTS, batch_size=batch_size) - contexts).max() < 1e-5
        assert np.abs(theirs.encode_document(TEXTS, batch_size=batch_size) - responses).max() < 1e-5
        assert np.abs(theirs.encode(TEXTS, batch_size=batch_size) - contexts).max() < 1e-5
    assert (
        np.abs(theirs.similarity(contexts, responses).numpy() - contexts @ responses.T).max() < 1e-5
    )
    assert theirs.get_embedding_dimension() == 24
    messages = [
        [{"role": "ab"[i % 2], "content": text} for i, text in enumerate(c)] for c in CONVERSATIONS
    ]
    vectors = theirs.encode_query(messages)
    assert np.abs(vectors - ours.encode_contexts(CONVERSATIONS)).max() < 1e-5
    assert np.abs(theirs.encode_query(messages[0]) - vectors[0]).max() < 1e-5


def test_saved_by_the_library_it_is_still_a_model_of_both(folders, tmp_path):
    theirs = opened(folders[1])
    theirs.save(str(tmp_path / "again"))
    assert np.abs(opened(tmp_path / "again").encode(TEXTS) - theirs.encode(TEXTS)).max() < 1e-6
    assert rejoinder.load(tmp_path / "again").fingerprint == rejoinder.load(folders[0]).fingerprint
    assert json.loads((tmp_path / "again" / "modules.json").read_text())[0]["path"] == ""


def test_its_trainer_trains_both_sides(folders, tmp_path):
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    model = opened(folders[1])
    before = {name: value.clone() for name, value in model.named_parameters()}
    pairs = datasets.Dataset.from_dict(
        {"message": TEXTS * 2, "reply": [*TEXTS[3:], *TEXTS[:3]] * 2}
    )
    arguments = sentence_transformers.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path),
        max_steps=2,
        per_device_train_batch_size=7,
        learning_rate=1e-2,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        router_mapping={"message": "query", "reply": "document"},
    )
    loss = losses.MultipleNegativesRankingLoss(model)
    sentence_transformers.SentenceTransformerTrainer(
        model, arguments, train_dataset=pairs, loss=loss
    ).train()
    changed = {
        name for name, value in model.named_parameters() if not torch.equal(before[name], value)
    }
    for part in ("subwords", "blocks", "context_head", "response_head"):
        assert any(part in name for name in changed), part
