"""The module that sentence-transformers loads, and the folder it comes from; the library itself is not needed here.

tests/parity/test_sentence_transformers.py does the same through the library.
"""

import importlib
import json

import numpy as np
import pytest
import torch

import rejoinder
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.persistence import load_module, save
from rejoinder.encoders.export.sentence_module import (
    SETTINGS,
    SentenceModule,
    export_sentence_transformers,
)
from rejoinder.errors import InputError
from rejoinder.networks.quantization.training import QuantizedTraining

from .conftest import SUBWORDS, convert, saved
from .tiny_transformer import opened

TEXTS = ["how are you?", "", "see the cat " * 20, "x"]
CONVERSATIONS = [["hello", "how are you?"], ["x"], ["a", "  ", "b", "see"]]


@pytest.fixture(scope="module", params=[0, 10])
def model(request, tmp_path_factory):
    return saved(tmp_path_factory.mktemp("models") / "m", 30, history=request.param)


def encode(module, inputs, **options):
    with torch.no_grad():
        return module(module.preprocess(inputs, **options))["sentence_embedding"].numpy()


def messages(contexts):
    return [
        [{"role": f"speaker {i % 2}", "content": text} for i, text in enumerate(context)]
        for context in contexts
    ]


def test_it_gives_the_vectors_of_the_library(model, tmp_path):
    export_sentence_transformers(model, tmp_path / "out")
    module, encoder = (
        SentenceModule.load(str(tmp_path / "out")),
        rejoinder.load(model, precision="fp32"),
    )
    contexts = encoder.encode_contexts([[text] for text in TEXTS])
    assert np.abs(encode(module, TEXTS, task="query") - contexts).max() < 1e-5
    assert np.abs(encode(module, TEXTS) - contexts).max() < 1e-5
    assert (
        np.abs(encode(module, TEXTS, task="document") - encoder.encode_responses(TEXTS)).max()
        < 1e-5
    )
    expected = encoder.encode_contexts(CONVERSATIONS)
    assert np.abs(encode(module, messages(CONVERSATIONS), task="query") - expected).max() < 1e-5
    with_prompt = encoder.encode_contexts([["a: how are you?"]])
    assert np.abs(encode(module, TEXTS[:1], prompt="a: ") - with_prompt).max() < 1e-5


def test_the_folder_names_the_class_and_stays_a_model_folder(model, tmp_path):
    result = export_sentence_transformers(model, tmp_path / "out", "response")
    entry = json.loads((tmp_path / "out" / "modules.json").read_text())[0]
    room, _, name = entry["type"].rpartition(".")
    assert getattr(importlib.import_module(room), name) is SentenceModule
    assert entry["path"] == ""
    assert (
        result["fingerprint"]
        == rejoinder.load(tmp_path / "out").fingerprint
        == rejoinder.load(model).fingerprint
    )
    assert (tmp_path / "out" / "README.md").read_text().startswith("# Mine\n")
    module = SentenceModule.load(str(tmp_path / "out"))
    expected = rejoinder.load(model, precision="fp32").encode_responses(TEXTS)
    assert np.abs(encode(module, TEXTS) - expected).max() < 1e-5


def test_saved_again_it_is_the_same(model, tmp_path):
    export_sentence_transformers(model, tmp_path / "out", "response")
    module = SentenceModule.load(str(tmp_path / "out"))
    (tmp_path / "again").mkdir()
    module.save(str(tmp_path / "again"))
    again = SentenceModule.load(str(tmp_path / "again"))
    assert np.array_equal(encode(again, TEXTS), encode(module, TEXTS))
    assert load_module(tmp_path / "again")[2] == load_module(model)[2]
    (tmp_path / "again" / "model-00001-of-00002.safetensors").touch()
    module.save(str(tmp_path / "again"))
    assert [path.name for path in (tmp_path / "again").glob("*.safetensors")] == ["model.safetensors"]
    with pytest.raises(InputError, match="safetensors only"):
        module.save(str(tmp_path / "again"), safe_serialization=False)


def test_a_model_trained_for_few_bits_keeps_its_rounded_vectors(tmp_path):
    network = convert()
    QuantizedTraining(network, "bfloat16")
    save(tmp_path / "m", network, SUBWORDS, max_length=30, card="")
    export_sentence_transformers(tmp_path / "m", tmp_path / "out")
    module = SentenceModule.load(str(tmp_path / "out"))
    expected = rejoinder.load(tmp_path / "m", precision="fp32").encode_contexts(
        [[text] for text in TEXTS]
    )
    assert np.abs(encode(module, TEXTS) - expected).max() < 1e-5


def test_bad_inputs_are_explained(model, tmp_path):
    export_sentence_transformers(model, tmp_path / "out")
    module = SentenceModule.load(str(tmp_path / "out"))
    with pytest.raises(InputError, match="task 'passage' is unknown"):
        module.preprocess(TEXTS, task="passage")
    with pytest.raises(InputError, match="one text, not a conversation"):
        module.preprocess(messages(CONVERSATIONS), task="document")
    for wrong in (3, [], [{"role": "user"}], ["a", 1]):
        with pytest.raises(
            InputError, match=r"a conversation is a list|no message|a message is a text"
        ):
            module.preprocess([wrong])
    (tmp_path / "out" / SETTINGS).unlink()
    with pytest.raises(InputError, match="export the model again"):
        SentenceModule.load(str(tmp_path / "out"))


def test_what_cannot_be_exported(model, tmp_path):
    with pytest.raises(InputError, match="allowed are context, response"):
        export_sentence_transformers(model, tmp_path / "out", "answer")
    export_quantized(model, tmp_path / "small")
    with pytest.raises(InputError, match=r"has no modules\.json that says .* not ours to replace"):
        export_sentence_transformers(model, tmp_path / "small")
    for kind in ("bi mean", "poly learnt", "cross match"):
        opened(tmp_path / kind, kind)
        with pytest.raises(
            InputError, match=r"as newest message and one history; .* --to transformers"
        ):
            export_sentence_transformers(tmp_path / kind, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_bundled_model_is_exported_with_its_newest_message_alone(tmp_path):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    import rejoinder
    from rejoinder.encoders.export.sentence_module import export_sentence_transformers

    export_sentence_transformers("bi-small", tmp_path / "st")
    assert "a context is its newest message alone" in (tmp_path / "st" / "README.md").read_text()
    model = SentenceTransformer(str(tmp_path / "st"), trust_remote_code=True)
    encoder = rejoinder.load("bi-small", precision="fp32")
    texts = ["Where is my parcel?", "It is on its way."]
    sides = {"query": encoder.encode_contexts([[text] for text in texts]), "document": encoder.encode_responses(texts)}
    for name, wanted in sides.items():
        assert abs(model.encode(texts, prompt_name=name) - wanted).max() < 1e-4
        assert abs(getattr(model, f"encode_{name}")(texts) - wanted).max() < 1e-4
    assert abs(sides["query"] - sides["document"]).max() > 0.05
