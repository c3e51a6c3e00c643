import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import rejoinder
from rejoinder.encoders.export.folder import export_quantized, sizes
from rejoinder.encoders.folders import describe
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.encoders.persistence import load, load_module, read_config, save, save_joined
from rejoinder.errors import InputError
from rejoinder.digests import signed
from rejoinder.text.subwords import Subwords

from .conftest import SUBWORDS, convert, saved

TEXTS = ["how are you?", "fine, thanks", "", "two\nlines"]


@pytest.fixture
def folder(tmp_path):
    return saved(tmp_path / "model", 40)


def test_a_saved_model_comes_back_with_the_same_weights_and_vectors(folder):
    again, subwords, config = load_module(folder)
    for name, value in convert().state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    assert subwords.encode("how are you?") == SUBWORDS.encode("how are you?")
    assert config["max_length"] == 40
    encoder = rejoinder.load(folder)
    assert encoder.max_length == 40
    assert np.array_equal(
        encoder.encode_responses(TEXTS), load(str(folder)).encode_responses(TEXTS)
    )
    assert {p.name for p in folder.iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
        "vocabulary.json",
    }


def test_a_tensor_in_two_files_is_refused(tmp_path, monkeypatch):
    from safetensors.torch import load_file, save_file

    from rejoinder.safetensors_files import stored_tensors

    monkeypatch.setattr("rejoinder.encoders.persistence.LARGEST_FILE", "20KB")
    several = saved(tmp_path / "several", 40)
    one, other, *_ = sorted(several.glob("*.safetensors"))
    name, tensor = next(iter(load_file(one).items()))
    save_file({**load_file(other), name: tensor + 1}, other)
    with pytest.raises(InputError, match=f"has the tensor {name}, which another"):
        stored_tensors([one, other])


def test_weights_in_several_files_are_the_same_model(tmp_path, folder, monkeypatch):
    monkeypatch.setattr("rejoinder.encoders.persistence.LARGEST_FILE", "20KB")
    several = saved(tmp_path / "several", 40)
    files = sorted(path.name for path in several.glob("*.safetensors"))
    assert len(files) > 2
    assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
    again = load_module(several)[0].state_dict()
    assert all(torch.equal(value, again[name]) for name, value in convert().state_dict().items())
    assert describe(several)["parameters"] == describe(folder)["parameters"]
    assert sizes(several) == sizes(folder)
    export_quantized(several, tmp_path / "few bits")
    vectors = load(tmp_path / "few bits").encode_responses(TEXTS)
    assert len([*(tmp_path / "few bits").glob("*.safetensors")]) > 1
    monkeypatch.undo()
    export_quantized(folder, tmp_path / "one file")
    assert np.array_equal(vectors, load(tmp_path / "one file").encode_responses(TEXTS))
    (several / "model_mine.safetensors").touch()
    with pytest.raises(InputError, match=r"model_mine\.safetensors"):
        save(several, convert(), SUBWORDS, max_length=40, card="", overwrite=True)
    (several / "model_mine.safetensors").unlink()
    opened = load(several)
    (several / files[1]).unlink()
    with pytest.raises(InputError, match=rf"{files[1]} is missing; copy the whole model folder"):
        describe(several)
    with pytest.raises(InputError, match=rf"{files[1]} is missing"):
        save_joined(tmp_path / "joined", JoinedEncoder(opened, load(folder)))
    with pytest.raises(InputError, match=rf"{files[1]} is missing; copy the whole model folder"):
        load(several)


def test_what_both_sides_share_is_stored_once_and_active_blocks_are_kept(tmp_path):
    network = convert(feed_forward_2="original")
    network.set_active_blocks(1)
    save(tmp_path / "m", network, SUBWORDS, max_length=60, card="")
    again = load_module(tmp_path / "m")[0]
    assert again.context_head.input_skip is again.response_head.input_skip
    assert again.active_blocks == 1
    assert torch.equal(again.shared_skip.weight, network.shared_skip.weight)


def test_the_fingerprint_follows_weights_vocabulary_and_structure(tmp_path, folder):
    network, other = convert(), Subwords([SUBWORDS.subwords[0], *reversed(SUBWORDS.subwords[1:])])
    save(tmp_path / "other", network, other, max_length=40, card="# Mine\n")
    with torch.no_grad():
        network.embedding.weight[0, 0] += 1e-3
    save(tmp_path / "trained", network, SUBWORDS, max_length=40, card="# Mine\n")
    shutil.copytree(folder, tmp_path / "copy")
    found = [load(tmp_path / name).fingerprint for name in ("model", "copy", "other", "trained")]
    assert found[0] == found[1]
    assert len(set(found)) == 3


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.json"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x00"),
        lambda path: path.write_bytes(b""),
        Path.unlink,
    ],
    ids=["cut short", "altered", "empty", "missing"],
)
def test_a_damaged_folder_is_refused_in_one_line_that_names_the_file(folder, name, damage):
    damage(folder / name)
    with pytest.raises(InputError, match=name) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_a_config_that_does_not_fit_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    other = {**config, "model": {**config["model"], "output_size": 25}}
    for changed, message in (
        (signed(other), "do not fit"),
        ({**config, "format": 99}, "format 99"),
    ):
        (folder / "config.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match=message):
            load(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/place", "no model '"),
        ("./nowhere", "no model '"),
        ("nowhere", "no model '"),
        (__file__, "is a file"),
    ],
)
def test_a_model_that_is_not_there(name, message):
    with pytest.raises(InputError, match=message):
        load(name)


def test_the_hub_is_asked_for_an_id_and_its_refusal_is_one_line(monkeypatch, folder):
    import huggingface_hub

    asked = []
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **_: asked.append(name) or str(folder)
    )
    assert load("owner/name").fingerprint == load(folder).fingerprint
    assert asked == ["owner/name"]

    def refuse(*_, **__):
        raise OSError("offline\nsecond line")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(InputError, match=r"nor could .* be fetched: offline$"):
        load("owner/name")


def test_a_flipped_bit_in_the_configuration_is_noticed(folder):
    content = (folder / "config.json").read_bytes()
    for bit in range(0, 8 * len(content), 13):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        (folder / "config.json").write_bytes(changed)
        try:
            found = read_config(folder)[1]
        except InputError:
            continue
        assert found == json.loads(content), "white space alone may change"


def test_a_folder_of_an_earlier_version_says_nothing_of_itself_and_opens(folder):
    config = json.loads((folder / "config.json").read_text())
    old = {key: value for key, value in config.items() if key not in ("kind", "sha256")}
    (folder / "config.json").write_text(json.dumps(old))
    assert load(folder).max_length == 40
    save(folder, convert(), SUBWORDS, max_length=30, card="", overwrite=True)
    assert load(folder).max_length == 30
