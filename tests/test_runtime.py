"""What an export opens as without PyTorch, on ONNX files made by hand (real exports: `tests/parity`)."""

import json
import pickle
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from rejoinder.encoders.onnx.folder import FORMAT, KIND
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.torch import Encoder
from rejoinder.errors import InputError
from rejoinder.digests import file_digest, signed
from rejoinder.intents.prediction import decide
from rejoinder.intents.refusal import Rejection
from rejoinder.networks.layers import segment_parts
from rejoinder.retrieval.index import Index
from rejoinder.runtime import OnnxEncoder, OnnxIntents
from rejoinder.text.subwords import Subwords
from rejoinder.text.history import HistoryText
from tests.encoders.conftest import SUBWORDS
from tests.test_architecture import libraries

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

TOKENIZER = Subwords(SUBWORDS.subwords, buckets=7, cut="middle")
LENGTH, R, H = 12, 8, 4
CONTEXTS = [
    ["how are you?"],
    ["your persona: i like cats", "  ", "hello there", "fine", "how are you?"],
    [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello"},
        {"role": "bot", "content": "x"},
    ],
    ["see the cat " * 30, "it begins so, goes on and on, and ends like that"],
    [""],
]
CANDIDATES = [["fine, thanks", "at noon.", ""]] * len(CONTEXTS)
PROGRAMS = {
    "trunk": """(int64[n, l] ids, bool[n, l] mask) => (float[n, 8] reduction)
        { rows = Gather(table, ids)  last = Constant<value_ints=[2]>()  real = Cast<to=1>(mask)
          column = Unsqueeze(real, last)  kept = Mul(rows, column)  first = Constant<value_ints=[1]>()
          reduction = ReduceSum<keepdims=0>(kept, first) }""",
    "side": """(float[n, 8] reduction) => (float[n, 4] vectors)
        { moved = Add(reduction, shift)  h = MatMul(moved, weight)  vectors = LpNormalization(h) }""",
    "combined": """(float[n, 4] context, float[n, 4] history) => (float[n, 4] vectors)
        { two = Constant<value_float=2.0>()  half = Div(history, two)  h = Add(context, half)
          vectors = LpNormalization(h) }""",
    "intents": """(float[n, 8] vectors) => (float[n, 3] logits, float[n] distances)
        { logits = MatMul(vectors, head)  last = Constant<value_ints=[1]>()
          distances = ReduceMax<keepdims=0>(vectors, last) }""",
}


class Summed(nn.Module):
    """r is the sum of a text's tokens; what `PROGRAMS` are in PyTorch."""

    output_size, reduction_size = H, R
    config = SimpleNamespace(subject_threshold=0.25)
    subject_threshold = 0.25
    opening_weight = 0.0

    def __init__(self):
        super().__init__()
        generator = np.random.default_rng(0)
        self.history = HistoryText(2, persona_first=True)
        self.table, *rest = (
            torch.from_numpy(generator.standard_normal(shape).astype(np.float32))
            for shape in [(TOKENIZER.rows, R), *[(R, H)] * 3, *[(R,)] * 3]
        )
        self.scale = nn.Parameter(torch.ones(1))
        names = ("context", "response", "history")
        self.sides = {name: (rest[i], rest[i + 3]) for i, name in enumerate(names)}

    def encode(self, batch, side):
        rows = []
        for part, segment in segment_parts(batch, self.table[batch.ids]):
            tokens = part.view(segment.count, segment.length, R)
            rows.append(
                (tokens if segment.real is None else tokens * segment.real[..., None]).sum(dim=1)
            )
        r = torch.cat(rows)[batch.restore]
        # An empty text is one token of padding to PyTorch, and none in the rectangle.
        r = torch.where(
            (r == self.table[TOKENIZER.padding_id]).all(1, keepdim=True), torch.zeros_like(r), r
        )
        return r if side == "reduction" else self.head(side)(r)

    def head(self, side):
        weight, shift = self.sides[side]
        return lambda r: F.normalize((r + shift) @ weight)

    def combine(self, x, z):
        return F.normalize(x + z / 2)


def write(path, name, **weights):
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> {name} {PROGRAMS[name]}'
    )
    arrays = (onnx.numpy_helper.from_array(value, key) for key, value in weights.items())
    model.graph.initializer.extend(arrays)
    onnx.save(model, path)


@pytest.fixture(scope="module")
def network():
    return Summed()


@pytest.fixture(scope="module")
def head():
    return np.random.default_rng(1).standard_normal((R, 3)).astype(np.float32)


@pytest.fixture
def folder(network, head, tmp_path):
    place = tmp_path / "onnx"
    place.mkdir()
    write(place / "trunk.onnx", "trunk", table=network.table.numpy())
    for side, (weight, shift) in network.sides.items():
        write(place / f"{side}.onnx", "side", weight=weight.numpy(), shift=shift.numpy())
    write(place / "combined.onnx", "combined")
    write(place / "intents.onnx", "intents", head=head)
    TOKENIZER.save(place / "vocabulary.json")
    rejection = {"score": "distance", "threshold": 0.6}
    manifest = {
        "kind": KIND,
        "format": FORMAT,
        "size": H,
        "reduction_size": R,
        "max_length": LENGTH,
        "model": "f",
        "subject_threshold": 0.25,
        "history": {"messages": 2, "numbered": False, "persona_first": True},
        "files": {path.name: file_digest(path) for path in place.iterdir()},
        "intents": {
            "labels": ["a", "b", "c"],
            "multi_label": False,
            "rejection": rejection,
            "vectors": "r",
        },
    }
    (place / "onnx.json").write_text(json.dumps(signed(manifest)))
    return place


@pytest.fixture
def expected(network):
    return Encoder(network, TOKENIZER, max_length=LENGTH, fingerprint="f")


def test_it_encodes_and_classifies_where_torch_cannot_be_imported(folder, expected, head):
    base, extras = libraries()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
        import json, sys
        for library in {sorted((base | extras) - {"numpy", "onnxruntime"})!r}:
            sys.modules[library] = None          # importing it now raises ImportError
        from rejoinder.runtime import OnnxEncoder, OnnxIntents
        encoder, intents = OnnxEncoder({str(folder)!r}), OnnxIntents({str(folder)!r})
        contexts, candidates = json.load(sys.stdin)
        print(json.dumps([
            encoder.encode_contexts(contexts).tolist(),
            encoder.encode_responses(candidates[0]).tolist(),
            encoder.score(contexts, candidates).tolist(),
            encoder.transfer(["x", "how are you?"]).tolist(),
            [[each.labels, each.out_of_scope, each.ranking] for each in intents.predict(["x", "hi"])],
        ]))
    """),
        ],
        input=json.dumps([CONTEXTS, CANDIDATES]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    contexts, responses, scores, reductions, found = json.loads(done.stdout)
    for given, wanted in (
        (contexts, expected.encode_contexts(CONTEXTS)),
        (responses, expected.encode_responses(CANDIDATES[0])),
        (scores, expected.score(CONTEXTS, CANDIDATES)),
        (reductions, expected.transfer(["x", "how are you?"])),
    ):
        np.testing.assert_allclose(given, wanted, atol=1e-5)
    vectors = F.normalize(torch.from_numpy(expected.transfer(["x", "hi"]))).numpy()
    rejection = Rejection("distance", 0.6)
    answers = decide(
        vectors @ head, vectors.max(axis=1), "abc", multi_label=False, rejection=rejection
    )
    for (labels, refused, ranking), answer in zip(found, answers, strict=True):
        assert (tuple(labels), refused) == (answer.labels, answer.out_of_scope)
        assert [name for name, _ in ranking] == [name for name, _ in answer.ranking]
        np.testing.assert_allclose(
            [p for _, p in ranking], [p for _, p in answer.ranking], atol=1e-5
        )


def test_a_server_answers_where_torch_cannot_be_imported(folder, expected, tmp_path):
    pytest.importorskip("fastapi")
    index = Index.build(expected, ["fine, thanks", "at noon."], tmp_path / "index")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
        import json, sys
        sys.modules["torch"] = None
        from pathlib import Path
        from rejoinder.serving.worker.answers import Answers, Question
        from rejoinder.serving.worker.text_jobs import text_intents
        from rejoinder.serving.worker.sources import Sources
        from rejoinder.serving.app import make_app
        from rejoinder.serving.worker.computing import Computing
        from rejoinder.serving.worker.jobs import Job, Lane
        folder = Path({str(folder)!r})
        computing = Computing(Sources(index=Path({str(index.folder)!r}), model=str(folder), intents=folder))
        computing.open()
        jobs = [Job(Answers.replies, Question(messages=["hi"])), Job(text_intents, ["x"])]
        print(json.dumps(computing.run(Lane.SEARCH, jobs)))
    """),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    replies, intents = json.loads(done.stdout)
    found = [(each["text"], pytest.approx(each["score"], abs=1e-5)) for each in replies["replies"]]
    assert [(reply.text, reply.score) for reply in index.search([["hi"]])[0]] == found
    assert len(intents[0]["ranking"]) == 3


def test_parts_batches_nothing_and_other_processes(folder, expected):
    encoder = OnnxEncoder(folder, threads=1)
    assert isinstance(encoder, DualEncoder)
    for part in ("input", "history"):
        wanted = expected.by(part).encode_contexts(CONTEXTS)
        for each in (encoder.by(part), pickle.loads(pickle.dumps(encoder.by(part)))):
            np.testing.assert_allclose(each.encode_contexts(CONTEXTS), wanted, atol=1e-5)
    many = [f"text {'x' * (i % 40)}" for i in range(300)]
    done = []
    np.testing.assert_allclose(
        encoder.encode_responses(many, done.append), expected.encode_responses(many), atol=1e-5
    )
    assert (sum(done), len(done) > 1) == (300, True)
    assert encoder.encode_contexts([]).shape == encoder.encode_responses([]).shape == (0, H)
    assert encoder.transfer([]).shape == (0, R)
    assert pickle.loads(pickle.dumps(OnnxIntents(folder, threads=1))).encoder.threads == 1
    shown = f"folder={str(folder)!r}, kind='onnx', precision='fp32', size=4, max_length=12, history=2"
    assert repr(encoder) == f"OnnxEncoder({shown})"
    assert "intents=3" in repr(OnnxIntents(folder))


def test_what_is_wrong_is_said(folder, tmp_path):
    encoder = OnnxEncoder(folder)
    for wrong in ("hello", ["hello"], [[1]], [[]]):
        with pytest.raises(InputError):
            encoder.encode_contexts(wrong)
    with pytest.raises(InputError, match="text 2 is blank"):
        OnnxIntents(folder).predict(["x", " "])
    with pytest.raises(InputError, match="give a list of texts"):
        OnnxIntents(folder).predict("x")
    with pytest.raises(InputError, match=r"no onnx\.json; `rejoinder export MODEL --to onnx"):
        OnnxEncoder(tmp_path)
    manifest = folder / "onnx.json"
    content = json.loads(manifest.read_text())
    plain = {key: value for key, value in content.items() if key != "intents"}
    for written, said in (
        (json.dumps(signed(plain)), "without intents; `rejoinder intents export"),
        (
            json.dumps(signed(content | {"format": 1})),
            "format 1, and this version reads 2: export the model again",
        ),
        (json.dumps(content | {"max_length": 9}), "was altered"),
        ("[]", "is damaged"),
        ("{", "is damaged"),
    ):
        manifest.write_text(written)
        with pytest.raises(InputError, match=said):
            OnnxIntents(folder)
    manifest.write_text(json.dumps(content))
    (folder / "trunk.onnx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"trunk\.onnx is missing, or not what was written"):
        OnnxEncoder(folder)
