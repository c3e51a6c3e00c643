"""Two encoders as one: the cosine is the mean of theirs, the folder is whole, and what needs one network refuses."""

import pickle
import shutil

import numpy as np
import pytest

import rejoinder
from rejoinder.encoders import folders
from rejoinder.encoders import bundled, persistence
from rejoinder.encoders.export import folder as export
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.export.onnx import export_onnx
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.encoders.onnx.encoder import OnnxEncoder, open_folder
from rejoinder.encoders.open import load
from rejoinder.errors import InputError
from rejoinder.training.initialisation import resolve_init
from tests.encoders.conftest import saved

CONTEXTS = [["hello there", "when do we meet?"], ["the end"]]
REPLIES = ["the hall", "at noon.", "soon"]


@pytest.fixture
def parts(tmp_path):
    return rejoinder.load(saved(tmp_path / "a", history=3)), rejoinder.load(
        saved(tmp_path / "b", output_size=40)
    )


def test_a_score_is_the_weighted_mean_of_the_parts(parts, tmp_path):
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*parts, 0.3))
    joined = rejoinder.load(tmp_path / "joined")
    wanted = 0.7 * parts[0].score(CONTEXTS, [REPLIES] * 2) + 0.3 * parts[1].score(
        CONTEXTS, [REPLIES] * 2
    )
    np.testing.assert_allclose(joined.score(CONTEXTS, [REPLIES] * 2), wanted, atol=1e-6)
    x, y, r = (
        joined.encode_contexts(CONTEXTS),
        joined.encode_responses(REPLIES),
        joined.transfer(REPLIES),
    )
    assert (x.shape, y.shape, r.shape) == ((2, joined.size), (3, 64), (3, joined.reduction_size))
    np.testing.assert_array_equal(r, parts[0].transfer(REPLIES))
    for vectors in (x, y):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(x @ y.T, wanted, atol=1e-6)
    again = pickle.loads(pickle.dumps(joined))
    assert (
        again.fingerprint
        == joined.fingerprint
        != JoinedEncoder(*parts, 0.3).with_share(0.4).fingerprint
    )
    np.testing.assert_array_equal(again.encode_responses(REPLIES), y)
    assert "joined" in repr(joined)


def test_encoders_that_are_made_of_a_loaded_model_are_pickled_too(parts, tmp_path):
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*parts, 0.3, 0.1))
    joined = rejoinder.load(tmp_path / "joined")
    for made in (joined.with_cache(), joined.with_recent()):
        again = pickle.loads(pickle.dumps(made))
        np.testing.assert_array_equal(again.encode_contexts(CONTEXTS), made.encode_contexts(CONTEXTS))
    with pytest.raises(InputError, match="save this one and load it"):
        pickle.dumps(joined.with_share(0.5))


def test_an_opening_gives_the_second_part_a_share_of_its_own(parts, tmp_path):
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*parts, 0.3, 0.1))
    joined, usual = rejoinder.load(tmp_path / "joined"), JoinedEncoder(*parts, 0.3)
    found, plain = joined.encode_contexts(CONTEXTS), usual.encode_contexts(CONTEXTS)
    np.testing.assert_array_equal(found[0], plain[0])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(joined.encode_responses(REPLIES), usual.encode_responses(REPLIES))
    first, second = (part.score(CONTEXTS[1:], [REPLIES])[0] for part in parts)
    scores = joined.score(CONTEXTS[1:], [REPLIES])[0]
    shared = 0.9 * first + 0.1 * second
    np.testing.assert_allclose(scores / shared, [scores[0] / shared[0]] * 3, rtol=1e-5)
    assert joined.fingerprint != usual.fingerprint
    assert joined.facts()["opening_share"] == 0.1
    assert "Where nothing was said before, the second one's share is 0.1." in joined.card()
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(joined)).encode_contexts(CONTEXTS), found
    )
    np.testing.assert_array_equal(joined.encode_queries(CONTEXTS), found)
    with pytest.raises(InputError, match="share 1 leaves responses one part"):
        joined.with_share(1)


def test_the_newest_message_alone_is_an_opening(tmp_path):
    parts = [
        rejoinder.load(saved(tmp_path / name, history=3, output_size=size))
        for name, size in (("a", 24), ("b", 40))
    ]
    joined = JoinedEncoder(*parts, 0.3, 0)
    alone = joined.by("input").encode_contexts(CONTEXTS)
    np.testing.assert_allclose(
        alone, joined.by("input").encode_contexts([c[-1:] for c in CONTEXTS]), atol=1e-6
    )
    np.testing.assert_array_equal(alone[:, parts[0].size :], 0)
    assert joined.by("history").encode_contexts(CONTEXTS)[0, parts[0].size :].any()
    persistence.save_joined(tmp_path / "joined", joined)
    loaded = rejoinder.load(tmp_path / "joined").by("input")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded)).encode_contexts(CONTEXTS), alone)


@pytest.mark.parametrize("before", [[""], [" \n"], ["", "\t"]])
def test_behind_blank_messages_an_opening_is_one(tmp_path, before):
    """As to the parts: of a picture nothing is said."""
    parts = [rejoinder.load(saved(tmp_path / name, history=3)) for name in "ab"]
    joined = JoinedEncoder(*parts, 0.3, 0.9)
    found = joined.encode_contexts([[*before, "where is my parcel?"], ["where is my parcel?"]])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_an_index_over_a_joined_model_opens_by_itself(parts, tmp_path):
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*parts))
    rejoinder.Index.build(rejoinder.load(tmp_path / "joined"), REPLIES, tmp_path / "index")
    [found] = rejoinder.Index.open(tmp_path / "index").search(CONTEXTS[:1], k=3)
    assert sorted(reply.text for reply in found) == sorted(REPLIES)


def test_the_folder_is_listed_whole_and_damage_is_found(parts, tmp_path):
    folder = tmp_path / "models" / "joined"
    persistence.save_joined(folder, JoinedEncoder(*parts))
    (tmp_path / "models" / "theirs").mkdir()
    for name, content in (("config.json", '{"model_type": "bert"}'), ("model.safetensors", "")):
        (tmp_path / "models" / "theirs" / name).write_text(content)
    assert folders.model_folders(tmp_path / "models") == [folder], (
        "not its parts, nor another library's"
    )
    found = folders.describe(folder)
    whole = [folders.describe(tmp_path / part) for part in "ab"]
    assert (found["kind"], found["parameters"]) == (
        "joined",
        sum(each["parameters"] for each in whole),
    )
    assert found["bytes"] > sum(each["bytes"] for each in whole)
    assert export.sizes(folder).network_parameters == sum(
        export.sizes(tmp_path / part).network_parameters for part in "ab"
    )
    with pytest.raises(InputError, match="--overwrite"):
        persistence.save_joined(folder, JoinedEncoder(*parts))
    (folder / "second" / "vocabulary.json").write_text("{}")
    with pytest.raises(InputError, match=r"second/vocabulary\.json was altered"):
        rejoinder.load(folder)


def test_a_part_that_was_replaced_since_it_was_opened_is_refused(parts, tmp_path):
    joined = JoinedEncoder(*parts, 0.3)
    shutil.rmtree(tmp_path / "b")
    saved(tmp_path / "b", output_size=24)
    with pytest.raises(InputError, match=r"/b was replaced by another model since .*; join again"):
        persistence.save_joined(tmp_path / "joined", joined)
    assert not (tmp_path / "joined").exists()


def test_what_needs_one_network_says_so(parts, tmp_path):
    folder = tmp_path / "joined"
    persistence.save_joined(folder, JoinedEncoder(*parts))
    with pytest.raises(InputError, match=r"joined model.*MODEL/first and MODEL/second"):
        export_quantized(folder, tmp_path / "exported")
    with pytest.raises(InputError, match="cannot be joined"):
        JoinedEncoder(rejoinder.load(folder), parts[1])


def test_programs_of_both_parts_give_the_same_vectors(parts, tmp_path):
    pytest.importorskip("onnxscript")
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*parts, 0.3, 0.1))
    export_onnx(tmp_path / "joined", tmp_path / "programs")
    model = rejoinder.load(tmp_path / "joined", precision="fp32")
    for light in (
        load(tmp_path / "programs"),
        pickle.loads(pickle.dumps(load(tmp_path / "programs"))),
    ):
        assert light.fingerprint == model.fingerprint
        np.testing.assert_allclose(
            light.score(CONTEXTS, [REPLIES] * 2), model.score(CONTEXTS, [REPLIES] * 2), atol=1e-5
        )
    with pytest.raises(
        InputError, match=r"is a joined model; open it with rejoinder\.load, or one"
    ):
        OnnxEncoder(tmp_path / "programs")
    (tmp_path / "programs" / "second" / "onnx.json").write_text("{}")
    with pytest.raises(InputError, match=r"second/onnx\.json is missing, or not what was written"):
        load(tmp_path / "programs")


def test_programs_read_weights_in_several_files(tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    monkeypatch.setattr("rejoinder.encoders.persistence.LARGEST_FILE", "4KB")
    for part, changes in (("a", {"history": 3}), ("b", {"output_size": 40})):
        saved(tmp_path / part, blocks=1, attention_spans=(3,), **changes)
        export_quantized(tmp_path / part, tmp_path / f"{part}8", linear_bits=8)
        assert len([*(tmp_path / f"{part}8").glob("*.safetensors")]) > 2
    rounded = (rejoinder.load(tmp_path / f"{part}8", precision="fp32") for part in "ab")
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*rounded, 0.3, 0.1))
    model = rejoinder.load(tmp_path / "joined", precision="fp32")
    export_onnx(tmp_path / "joined", tmp_path / "programs")
    light = open_folder(tmp_path / "programs")
    trunk = (tmp_path / "programs" / "first" / "trunk.onnx").read_bytes()
    files = (tmp_path / "programs" / "first").glob("*.safetensors")
    assert sum(path.name.encode() in trunk for path in files) > 1
    np.testing.assert_allclose(
        light.score(CONTEXTS, [REPLIES] * 2), model.score(CONTEXTS, [REPLIES] * 2), atol=1e-5
    )


def test_a_part_of_a_named_model_has_a_name(parts, tmp_path, monkeypatch):
    persistence.save_joined(tmp_path / "pair", JoinedEncoder(*parts))
    known = folders.fingerprint(persistence.whole_config(tmp_path / "pair"))
    monkeypatch.setattr(bundled, "FOLDER", tmp_path)
    monkeypatch.setattr(bundled, "BUNDLED", {"pair": bundled.Weights(known, "MIT")})
    assert rejoinder.load("pair/second").fingerprint == parts[1].fingerprint
    with pytest.raises(InputError, match=r"pair is a joined model.*pair/first and pair/second"):
        resolve_init({"init": {"model": "pair"}}, lambda config, _: config)
