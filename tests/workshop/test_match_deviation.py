"""Own weights whose outputs deviate as another checkpoint's."""

import sys

import pytest
import torch

from rejoinder.encoders.export.checkpoints import load_checkpoint, save_checkpoint
from rejoinder.errors import InputError
from tests.training.tiny import write_data
from tests.training.transformers import SHAPE, write_checkpoint
from workshop import match_deviation

CONTEXTS = [("how are you", "fine and you"), ("a longer question comes here",), ("no",)]


@pytest.fixture
def checkpoints(tmp_path):
    """Two of other weights; the outputs of the second are smaller, as BERT's are."""
    own, like = (
        write_checkpoint(tmp_path / name, seed=seed) for seed, name in enumerate(("own", "like"))
    )
    module, tokenizer = load_checkpoint(like)
    with torch.no_grad():
        module.blocks[-1].feed_forward_norm.weight.mul_(0.3)
    save_checkpoint(like, module, SHAPE, tokenizer, overwrite=True)
    return own, like


def test_outputs_deviate_as_those_of_the_other_and_nothing_else_changes(tmp_path, checkpoints):
    own, like = checkpoints
    before, wanted = match_deviation.match(own, like, CONTEXTS, tmp_path / "scaled")
    assert before == pytest.approx(1.0, abs=0.05), "a fresh transformer ends in a layer norm"
    assert wanted == pytest.approx(0.3, abs=0.05)
    assert match_deviation.deviation(tmp_path / "scaled", CONTEXTS) == pytest.approx(
        wanted, rel=1e-5
    )
    old, new = (
        dict(load_checkpoint(folder)[0].named_parameters()) for folder in (own, tmp_path / "scaled")
    )
    assert {name for name in old if not torch.equal(old[name], new[name])} == {
        "blocks.1.feed_forward_norm.weight"
    }


def test_padding_and_other_texts_have_no_part_in_it(checkpoints):
    alone = [match_deviation.deviation(checkpoints[0], [context]) for context in CONTEXTS[:1] * 2]
    assert match_deviation.deviation(checkpoints[0], CONTEXTS[:1] * 2) == pytest.approx(
        alone[0], rel=1e-2
    )


def test_from_the_shell(tmp_path, checkpoints, monkeypatch, capsys):
    own, like = map(str, checkpoints)
    data = write_data(tmp_path / "data", train=40, valid=10)
    words = ["match_deviation", own, "--like", like, "--data", str(data), "--examples", "20"]
    monkeypatch.setattr(sys, "argv", [*words, "-o", str(tmp_path / "scaled")])
    match_deviation.main()
    assert "last layer norm times 0.3" in capsys.readouterr().out
    assert (tmp_path / "scaled" / "model.safetensors").is_file()
    monkeypatch.setattr(sys, "argv", [*words, "--examples", "0", "-o", str(tmp_path / "none")])
    with pytest.raises(InputError, match="no conversations to measure with"):
        match_deviation.main()
