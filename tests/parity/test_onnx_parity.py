"""The exported encoders in onnxruntime, against the library's own vectors in float32."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import rejoinder
from rejoinder.models.dialogue import HistoryText
from rejoinder.models.export import export_onnx
from tests.models.conftest import SUBWORDS, saved

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytestmark = pytest.mark.slow
GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"
TEXTS = ["how are you?", "", "x", "see the cat " * 30, "hello there", "fine, thanks", "a\nb", "bye! " * 7]
CONTEXTS = [[text] for text in TEXTS] + [["hello", "x"], ["a", "  ", "see the cat " * 30, ""], list("abcdefghijklmnop")]


def exported(folder, **changes):
    """A model, its ONNX folder, and the model's own encoder."""
    export_onnx(saved(folder / "model", **changes), folder / "onnx")
    return folder / "onnx", rejoinder.load(folder / "model", precision="fp32")


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("single"))


@pytest.fixture(scope="module")
def multi(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("multi"), history=10, heads=2, feed_forward_2="original")


def padded(texts, manifest, more):
    """Ids and mask, made from the vocabulary file and the manifest alone, with `more` columns of padding."""
    ids, lengths = SUBWORDS.encode_ragged(texts, manifest["max_length"])
    mask = np.arange(max(1, int(lengths.max())) + more) < lengths[:, None]
    rectangle = np.full(mask.shape, manifest["padding_id"])
    rectangle[mask] = ids
    return rectangle, mask


def run(folder, side, texts, histories=None, more=0):
    """Vectors of all texts in one call."""
    manifest = json.loads((folder / "onnx.json").read_text())
    arrays = [*padded(texts, manifest, more), *(padded(histories, manifest, more) if histories else ())]
    names = manifest["files"][f"{side}.onnx"]["inputs"]
    session = onnxruntime.InferenceSession(folder / f"{side}.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def assert_same(vectors, expected):
    assert vectors.dtype == np.float32
    cosines = (vectors * expected).sum(axis=1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.9999
    assert np.abs(vectors - expected).max() < 1e-4


@pytest.mark.parametrize(("count", "more"), [(1, 0), (2, 1), (3, 50), (8, 0), (8, 50)])
def test_texts_of_all_lengths_in_batches_of_all_sizes(single, count, more):
    folder, encoder = single
    for start in range(0, len(TEXTS), count):
        texts = TEXTS[start : start + count]
        assert_same(run(folder, "context", texts, more=more), encoder.encode_contexts([[text] for text in texts]))
        assert_same(run(folder, "response", texts, more=more), encoder.encode_responses(texts))


@pytest.mark.parametrize(("count", "more"), [(1, 0), (2, 30), (11, 0), (11, 30)])
def test_conversations_with_and_without_history(multi, count, more):
    folder, encoder = multi
    join = HistoryText(**json.loads((folder / "onnx.json").read_text())["history"]).join
    for start in range(0, len(CONTEXTS), count):
        contexts = CONTEXTS[start : start + count]
        vectors = run(folder, "context", [c[-1] for c in contexts], [join(c) for c in contexts], more)
        assert_same(vectors, encoder.encode_contexts(contexts))
    assert_same(run(folder, "response", TEXTS, more=more), encoder.encode_responses(TEXTS))


def test_the_example_of_the_guide(single, tmp_path, monkeypatch, capsys):
    """It runs as it stands, needs no PyTorch, and finds the replies that the library finds."""
    folder, encoder = single
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    code = next(block for block in blocks if "onnxruntime" in block)
    assert "torch" not in code
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "onnx").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    values = {}
    exec(code, values)
    expected = encoder.score([["Where is my order?"]], [values["replies"]])[0]
    assert np.abs(values["scores"] - expected).max() < 1e-4
    assert values["replies"][int(expected.argmax())] in capsys.readouterr().out
