"""ONNX programs that multiply in 8 bits: against a formulation in numpy, alone and in a batch."""

import pickle

import numpy as np
import pytest

import rejoinder
from rejoinder.encoders.onnx.encoder import OnnxEncoder, open_folder
from rejoinder.encoders.onnx.program import open_program
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.torch import Encoder
from rejoinder.errors import InputError
from rejoinder.processor import has_exact_int8

pytest.importorskip("onnxruntime")
onnx_ir = pytest.importorskip("onnx_ir")
from rejoinder.encoders.export.int8 import use_int8  # noqa: E402 (needs onnx_ir)

TEXTS = [
    "Where is my order?",
    "x",
    "",
    "I ordered a lamp last week, and it came in pieces. " * 6,
    "Can I return it, and what does that cost?",
    "No.",
]
LAYER = """<ir_version: 10, opset_import: ["" : 20]>
g (float[n, 6] x, float[4, 6] weight, float[4] bias) => (float[n, 4] y)
{ h = Gemm<transB = 1>(x, weight, bias)  y = Identity(h) }"""


def in_int8(x, weight, bias):
    """(n, in), (out, in), (out,) -> (n, out): each row and each output has a scale of its own."""
    scales = np.maximum(np.abs(weight).max(axis=1, keepdims=True), 1e-30) / 127
    ranges = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-30) / 127
    product = np.rint(x / ranges).astype(np.int64) @ np.rint(weight / scales).astype(np.int64).T
    return product * ranges * scales.T + bias


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    model = onnx_ir.from_onnx_text(LAYER)
    assert use_int8(model) == 1
    path = tmp_path_factory.mktemp("layer") / "layer.onnx"
    onnx_ir.save(model, path)
    return open_program(path, 1)


def test_a_layer_multiplies_as_the_definition_says(layer):
    draw = np.random.default_rng(0)
    weight = draw.normal(size=(4, 6)).astype(np.float32)
    weight[2] = 0
    if not has_exact_int8():
        weight[:, 1::2] = 0  # so that no two products that are added in 16 bits overflow
    bias = draw.normal(size=4).astype(np.float32)
    x = np.concatenate([draw.normal(size=(50, 6)) * 10 ** draw.normal(size=(50, 1)), np.zeros((1, 6))])
    [y] = layer(x=x.astype(np.float32), weight=weight, bias=bias)
    np.testing.assert_allclose(y, in_int8(x.astype(np.float32), weight, bias), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(y[-1], bias)


def test_a_vector_does_not_depend_on_what_is_encoded_beside_it():
    encoder = OnnxEncoder("bi-small", threads=1)
    assert encoder.precision == "int8"
    together = encoder.encode_responses(TEXTS)
    alone = np.concatenate([encoder.encode_responses([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_the_precision_is_chosen_and_kept():
    exact = OnnxEncoder("bi-small", precision="fp32")
    assert (exact.precision, pickle.loads(pickle.dumps(exact)).precision) == ("fp32", "fp32")
    assert OnnxEncoder("convert-small").precision == "fp32"  # it has no other
    vectors = rejoinder.load("bi-small", precision="fp32").encode_responses(TEXTS)
    np.testing.assert_allclose(exact.encode_responses(TEXTS), vectors, atol=1e-5)
    cosines = (OnnxEncoder("bi-small").encode_responses(TEXTS) * vectors).sum(axis=1)
    assert 0.995 < cosines.min() < 0.9999999
    assert isinstance(open_encoder("bi-small", light=True, precision="bf16"), Encoder)


@pytest.mark.parametrize(
    ("name", "precision", "said"),
    [
        ("bi-small", "bf16", r"'bf16' is unknown to ONNX programs; allowed are auto, fp32, int8"),
        ("convert-small", "int8", r"convert-small has no program in 8 bits; take 'auto'"),
    ],
)
def test_a_precision_that_is_not_there_is_refused(name, precision, said):
    with pytest.raises(InputError, match=said):
        open_folder(name, precision=precision)
