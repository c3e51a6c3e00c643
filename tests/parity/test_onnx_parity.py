"""Exported models and classifiers in onnxruntime, against the library's own vectors in float32."""

import json
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rejoinder
from rejoinder.encoders.folders import CARD, find, folder_bytes
from rejoinder.encoders import bundled, persistence
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.export.onnx import export_onnx
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.encoders.open import load, open_texts
from rejoinder.encoders.sentence import concatenate
from rejoinder.intents.classifier import train_classifier
from rejoinder.intents.data import TrainingTexts
from rejoinder.intents.export import export_classifier
from rejoinder.intents.folder import load_classifier, save_classifier
from rejoinder.intents.refusal import Rejection
from rejoinder.runtime import OnnxEncoder, OnnxIntents
from rejoinder.text.subwords import Subwords
from tests.encoders import tiny_transformer
from tests.encoders.conftest import SUBWORDS, convert
from tests.intents.toy import toy_data

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytestmark = pytest.mark.slow
GUIDE = Path(__file__).parents[2] / "docs" / "export.md"
TEXTS = [
    "how are you?",
    "",
    "x",
    "see the cat " * 30,
    "hello there",
    "fine, thanks",
    "a\nb",
    "bye! " * 7,
]
CONTEXTS = [[text] for text in TEXTS] + [
    ["hello", "x"],
    ["a", "  ", "see the cat " * 30, ""],
    list("abcdefghijklmnop"),
    ["your persona: i like cats", "hello", {"role": "user", "content": "x"}],
]
MODELS = {
    "single": {},
    "multi": {
        "history": 10,
        "heads": 2,
        "feed_forward_2": "original",
        "persona_first": True,
        "history_gate": True,
        "input_weight": 0.5,
        "persona_weight": 0.7,
        "subject_threshold": 0.2,
    },
}
APART = {
    "history": 3,
    "context_length": None,
    "opening_weight": 0.75,
    "persona_first": True,
    "persona_weight": 0.7,
    "subject_threshold": 0.2,
}
RELATIVE = APART | {"segments": 0, "relative_buckets": 8}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder with a model, quantised if it reads history, and its ONNX folder; also of bundled ones."""
    made = {}
    for name, changes in MODELS.items():
        made[name] = place = tmp_path_factory.mktemp(name)
        tokenizer = Subwords(SUBWORDS.subwords, cut="middle" if changes else "end")
        persistence.save(
            place / "full", convert(**changes), tokenizer, max_length=60, card="# Mine\n"
        )
        if changes:
            export_quantized(place / "full", place / "model")
        else:
            (place / "full").rename(place / "model")
        export_onnx(place / "model", place / "onnx")
    for name, changes in (("apart", APART), ("relative", RELATIVE)):
        made[name] = place = tmp_path_factory.mktemp(name)
        tiny_transformer.opened(place / "full", "multi-context-bi-encoder", **changes)
        export_quantized(place / "full", place / "model", linear_bits=8)
        export_onnx(place / "model", place / "onnx")
    made["joined"] = place = tmp_path_factory.mktemp("joined")
    parts = [rejoinder.load(made[name] / "model") for name in ("apart", "multi")]
    persistence.save_joined(place / "model", JoinedEncoder(*parts, 0.35, 0.05))
    export_onnx(place / "model", place / "onnx")
    for name in bundled.BUNDLED:
        made[name] = place = tmp_path_factory.mktemp(name)
        (place / "model").symlink_to(find(name))
        export_onnx(place / "model", place / "onnx")
    return made


def assert_same(vectors, expected):
    assert (vectors.dtype, vectors.shape) == (np.float32, expected.shape)
    assert np.abs(vectors - expected).max() < 1e-5


@pytest.mark.parametrize("name", [*MODELS, "apart", "relative", "joined", *bundled.BUNDLED])
def test_the_runtime_gives_what_pytorch_gives(folders, name):
    onnx = load(folders[name] / "onnx", light=True, precision="fp32")
    assert type(onnx) is (JoinedEncoder if name == "joined" else OnnxEncoder)
    model = rejoinder.load(folders[name] / "model", precision="fp32")
    assert (onnx.fingerprint, onnx.subject_threshold) == (
        model.fingerprint,
        model.subject_threshold,
    )
    for part in ("all", "input", "history") if model.reads_history else ("all",):
        assert_same(
            onnx.by(part).encode_contexts(CONTEXTS), model.by(part).encode_contexts(CONTEXTS)
        )
    assert_same(onnx.encode_responses(TEXTS), model.encode_responses(TEXTS))
    assert_same(
        onnx.score(CONTEXTS, [TEXTS] * len(CONTEXTS)),
        model.score(CONTEXTS, [TEXTS] * len(CONTEXTS)),
    )
    np.testing.assert_allclose(onnx.transfer(TEXTS), model.transfer(TEXTS), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["apart", "relative", "joined", "bi-small"])
def test_products_in_8_bits_give_nearly_the_same(folders, name):
    folder = folders[name] / "onnx"
    light = load(folder, light=True)
    trunks = [each.precision for each in getattr(light, "parts", [light])]
    assert trunks == (["int8", "fp32"] if name == "joined" else ["int8"])
    exact = load(folder, light=True, precision="fp32")
    for side, texts in (("encode_responses", TEXTS), ("encode_contexts", CONTEXTS)):
        found, wanted = getattr(light, side)(texts), getattr(exact, side)(texts)
        assert (found * wanted).sum(axis=1).min() > 0.99
        assert not np.array_equal(found, wanted)  # another program


def test_only_quantised_bi_encoders_have_a_program_in_8_bits(folders):
    having = {name for name in folders if list((folders[name] / "onnx").rglob("trunk-int8.onnx"))}
    assert having == {"apart", "relative", "joined", "bi-small"}
    program = folders["bi-small"] / "onnx" / "trunk-int8.onnx"
    assert program.stat().st_size < 100_000  # it reads the weights where they are


def test_a_part_may_lack_its_card(folders, tmp_path):
    for name in ("apart", "multi"):
        shutil.copytree(folders[name] / "model", tmp_path / name)
        (tmp_path / name / CARD).unlink()
    parts = [rejoinder.load(tmp_path / name) for name in ("apart", "multi")]
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*parts, 0.35))
    export_onnx(tmp_path / "joined", tmp_path / "onnx")
    onnx = load(tmp_path / "onnx", light=True, precision="fp32")
    model = rejoinder.load(tmp_path / "joined", precision="fp32")
    assert_same(onnx.encode_responses(TEXTS), model.encode_responses(TEXTS))


@pytest.mark.parametrize("name", list(bundled.BUNDLED))
def test_weights_stay_in_few_bits_and_files_tell_nothing_of_where_they_were_made(folders, name):
    place = folders[name]
    assert folder_bytes(place / "onnx") < 1.01 * folder_bytes(place / "model")
    assert not any(b".py" in path.read_bytes() for path in (place / "onnx").glob("*.onnx"))


@pytest.mark.parametrize(("count", "more"), [(1, 0), (2, 1), (3, 50), (8, 0), (8, 50)])
def test_other_programs_may_pad_as_they_like(folders, count, more):
    """Fed as the folder's README says, with `more` columns of padding."""
    folder = folders["single"] / "onnx"
    model = rejoinder.load(folders["single"] / "model", precision="fp32")
    manifest = json.loads((folder / "onnx.json").read_text())
    names = ("trunk", "context", "response")
    sessions = {name: onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in names}
    for start in range(0, len(TEXTS), count):
        texts = TEXTS[start : start + count]
        ids, lengths = SUBWORDS.encode_ragged(texts, manifest["max_length"])
        mask = np.arange(max(1, int(lengths.max())) + more) < lengths[:, None]
        rectangle = np.full(mask.shape, manifest["padding_id"])
        rectangle[mask] = ids
        [r] = sessions["trunk"].run(None, {"ids": rectangle, "mask": mask})
        for side, wanted in (
            ("context", model.encode_contexts([[text] for text in texts])),
            ("response", model.encode_responses(texts)),
        ):
            assert_same(sessions[side].run(None, {"reduction": r})[0], wanted)


@pytest.mark.parametrize("name", ["multi", "joined"])
@pytest.mark.parametrize(("vectors", "multi_label"), [("r", False), ("both", True)])
def test_a_classifier_answers_as_it_does_in_pytorch(folders, tmp_path, name, vectors, multi_label):
    model = str(folders[name] / "model")
    texts = TrainingTexts(toy_data())
    trained = train_classifier(open_texts(model, vectors, "fp32"), texts, multi_label=multi_label)
    rejection = None if multi_label else Rejection("distance", 0.4)
    save_classifier(replace(trained, rejection=rejection), tmp_path / "made")
    export_classifier(tmp_path / "made", tmp_path / "onnx")
    asked = toy_data(seed=3).texts
    found, wanted = (
        OnnxIntents(tmp_path / "onnx").predict(asked),
        load_classifier(tmp_path / "made").predict(asked),
    )
    assert {each.out_of_scope for each in wanted} == ({None} if multi_label else {False, True})
    for one, other in zip(found, wanted, strict=True):
        assert (one.labels, one.out_of_scope) == (other.labels, other.out_of_scope)
        assert dict(one.ranking) == pytest.approx(dict(other.ranking), abs=1e-5)
    wanted = rejoinder.load(model, precision="fp32").encode_responses(TEXTS)
    assert_same(load(tmp_path / "onnx", light=True, precision="fp32").encode_responses(TEXTS), wanted)
    assert pickle.loads(pickle.dumps(OnnxIntents(tmp_path / "onnx"))).predict(asked) == found


def test_a_classifier_on_other_encoders_is_refused(folders, tmp_path):
    model = open_texts(str(folders["single"] / "model"))
    save_classifier(
        train_classifier(concatenate([model, model]), TrainingTexts(toy_data())), tmp_path / "made"
    )
    with pytest.raises(rejoinder.errors.InputError, match="only a classifier on one of"):
        export_classifier(tmp_path / "made", tmp_path / "onnx")


def test_the_example_of_the_guide(folders, tmp_path):
    """It runs as it stands where torch cannot be imported, and its answers are those that it shows."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    code = next(block for block in blocks if "OnnxEncoder" in block)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "onnx").symlink_to(folders["convert-small"] / "onnx")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['torch'] = None\n{code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("Yes, two cats! Yes, two cats!\n", "")
    assert code.rstrip().endswith(f"# {done.stdout.rstrip()}")
