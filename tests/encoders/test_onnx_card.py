"""The README of an ONNX folder: it names each program, and who follows it, in Python or in Node, gets the vectors."""

import json
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path, PurePath, PureWindowsPath

import numpy as np
import pytest

from rejoinder.encoders import bundled
from rejoinder.encoders.export import onnx as onnx_export
from rejoinder.encoders.export.onnx_card import onnx_card
from rejoinder.encoders.onnx.encoder import OnnxEncoder
from rejoinder.text.tokenizer import encode_messages

ort = pytest.importorskip("onnxruntime")
FOLDER = bundled.FOLDER / "bi-small"
ALONE = ["Where is my parcel?"]
LONGER = ["Hello!", "Hi, how can I help?", "It has not come."]
NODE = os.environ.get("REJOINDER_NODE_MODULES", "")  # a folder node_modules with onnxruntime-node
SCRIPT = """
const ort = require('onnxruntime-node');
const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));
async function run(name, inputs) {
  const session = await ort.InferenceSession.create(given.folder + '/' + name);
  const found = await session.run(inputs);
  return found[Object.keys(found)[0]];
}
const ints = (rows) => new ort.Tensor('int64', BigInt64Array.from(rows.flat().map(BigInt)), [rows.length, rows[0].length]);
async function vector(ids, side) {
  const mask = new ort.Tensor('bool', Uint8Array.from(ids, () => 1), [1, ids.length]);
  return run(side + '.onnx', { reduction: await run('trunk.onnx', { ids: ints([ids]), mask }) });
}
async function main() {
  const [alone] = given.alone;
  const newest = await vector(given.longer[given.longer.length - 1], 'context');
  const earlier = given.longer.slice(0, -1).reverse();
  const vectors = [];
  for (const ids of earlier) vectors.push(...(await vector(ids, 'history')).data);
  const messages = new ort.Tensor('float32', Float32Array.from(vectors), [earlier.length, newest.dims[1]]);
  const histories = ints([earlier.map(() => 0), earlier.map((_, slot) => slot)]);
  const history = await run('pooled.onnx', { context: newest, messages, histories });
  const whole = await run('combined.onnx', { context: newest, history });
  const opening = await vector(alone, 'opening');
  console.log(JSON.stringify([[...opening.data], [...whole.data]]));
}
main();
"""


def _manifest():
    return json.loads((FOLDER / "onnx.json").read_text())


def _ids(encoder, texts):
    ids, lengths = encode_messages(encoder.tokenizer, texts, encoder.max_length)
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


def test_it_names_the_programs_that_there_are():
    named = set(re.findall(r"([\w-]+\.onnx)", onnx_card(_manifest(), with_int8=True)))
    assert named == {path.name for path in FOLDER.glob("*.onnx")}


def test_it_describes_a_model_without_a_history():
    plain = {"size": 4, "reduction_size": 8, "history": None, "tokenizer": "subwords", "opening_weight": 0.0}
    assert set(re.findall(r"(\w+\.onnx)", onnx_card(plain))) == {"trunk.onnx", "context.onnx", "response.onnx"}


def test_who_follows_it_in_python_gets_the_vectors():
    encoder = OnnxEncoder(FOLDER, precision="fp32")

    def run(name, **inputs):
        return ort.InferenceSession(FOLDER / name).run(None, inputs)[0]

    def vector(ids, side):
        ids = np.array([ids], dtype=np.int64)
        return run(f"{side}.onnx", reduction=run("trunk.onnx", ids=ids, mask=np.ones(ids.shape, dtype=bool)))

    [alone] = _ids(encoder, ALONE)
    *earlier, newest = _ids(encoder, LONGER)
    x = vector(newest, "context")
    messages = np.concatenate([vector(ids, "history") for ids in reversed(earlier)])
    histories = np.array([[0] * len(earlier), range(len(earlier))], dtype=np.int64)
    whole = run("combined.onnx", context=x, history=run("pooled.onnx", context=x, messages=messages, histories=histories))
    wanted = encoder.encode_contexts([ALONE, LONGER])
    np.testing.assert_allclose(np.concatenate([vector(alone, "opening"), whole]), wanted, atol=2e-5)


def test_who_follows_it_with_a_persona_gets_the_scores():
    encoder = OnnxEncoder(FOLDER, precision="fp32")
    stated = ["i have two cats.", "i live in a small town."]
    said = ["Hello!", "Hi there."]
    newest = "Do you have any pets?"
    responses = ["yes, two cats!", "I work as a nurse."]
    settings = _manifest()["history"]

    def run(name, **inputs):
        return ort.InferenceSession(FOLDER / name).run(None, inputs)[0]

    def vectors(texts, side):
        def vector(row):
            ids = np.array([row], dtype=np.int64)
            return run(f"{side}.onnx", reduction=run("trunk.onnx", ids=ids, mask=np.ones(ids.shape, dtype=bool)))

        return np.concatenate([vector(row) for row in _ids(encoder, texts)])

    x = vectors([newest], "context")
    messages = vectors([*reversed(said), *stated], "history")
    slots = [*range(len(said)), *[settings["messages"]] * len(stated)]
    histories = np.array([[0] * len(slots), slots], dtype=np.int64)
    [c] = run("combined.onnx", context=x, history=run("pooled.onnx", context=x, messages=messages, histories=histories))
    h = messages[len(said) :]
    context = [*(f"your persona: {text}" for text in stated), *said, newest]
    [wanted] = encoder.score([context], [responses])
    weight = settings["persona_weight"]
    for y, score in zip(vectors(responses, "response"), wanted, strict=True):
        p = np.exp(16 * weight * h @ y)
        assert c @ y + weight * (p / p.sum()) @ (h @ y) == pytest.approx(score, abs=2e-5)
    card = onnx_card(_manifest())
    assert f"in slot {settings['messages']}" in card
    assert "16 · 0.7 · h·y" in card


def test_it_says_how_a_joined_history_reads_a_persona():
    history = {**_manifest()["history"], "apart": False, "persona_weight": 0.0}
    card = onnx_card(_manifest() | {"history": history})
    assert "before the others in the joined text" in card
    assert "softmax" not in card
    assert "your persona" not in onnx_card(_manifest() | {"history": history | {"persona_first": False}})


@pytest.mark.skipif(not NODE or not shutil.which("node"), reason="REJOINDER_NODE_MODULES names no onnxruntime-node")
def test_who_follows_it_in_node_gets_the_vectors():
    encoder = OnnxEncoder(FOLDER, precision="fp32")
    given = {"folder": str(FOLDER), "alone": _ids(encoder, ALONE), "longer": _ids(encoder, LONGER)}
    done = subprocess.run(["node", "-e", SCRIPT], input=json.dumps(given), capture_output=True, text=True,
                          env=os.environ | {"NODE_PATH": str(Path(NODE).absolute())}, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    wanted = encoder.encode_contexts([ALONE, LONGER])
    np.testing.assert_allclose(np.array(json.loads(done.stdout)), wanted, atol=2e-5)


def test_the_files_of_a_joined_model_have_the_same_names_on_windows(tmp_path, monkeypatch):
    @contextmanager
    def of_two_parts(_model, output, *, overwrite):
        assert not overwrite
        for part in ("first", "second"):
            (output / part).mkdir(parents=True)
            (output / part / "trunk.onnx").touch()
        yield output, {"model": "fingerprint"}

    def windows_path(self, *other):
        return PureWindowsPath(PurePath.relative_to(self, *other))

    monkeypatch.setattr(onnx_export, "onnx_folder", of_two_parts)
    monkeypatch.setattr(Path, "relative_to", windows_path)
    files = onnx_export.export_onnx("joined", tmp_path / "onnx")["files"]
    assert files == ["first/trunk.onnx", "second/trunk.onnx"]
