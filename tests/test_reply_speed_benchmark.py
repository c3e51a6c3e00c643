"""Time to pick a reply: the rows of POLY's Tables 5 and 9, on a processor and on a device."""

import sys
from pathlib import Path

import pytest

from rejoinder.encoders.persistence import load, save
from rejoinder.encoders.families import build_module
from rejoinder.networks.poly import BiEncoderConfig, PolyEncoderConfig
from tests.training.transformers import letters

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import reply_speed

TINY = {"hidden_size": 16, "blocks": 1, "heads": 2, "feed_forward_size": 16, "context_length": 40}
CONTEXT = ["where is my card", "it has not come", "please send another"]


def test_every_row_of_the_tables_is_measured():
    configs = reply_speed.poly_configs(blocks=12)
    rows = ["bi", "poly-16", "poly-64", "poly-360", "first-16", "first-64", "first-360", "cross"]
    assert list(configs) == rows
    assert configs["first-360"].codes == "first"
    assert [configs[name].m for name in rows[1:4]] == [16, 64, 360]
    assert {(config.hidden_size, config.blocks) for config in configs.values()} == {(768, 12)}


@pytest.mark.parametrize(
    "config",
    [
        BiEncoderConfig(**TINY),
        PolyEncoderConfig(m=4, **TINY),
        PolyEncoderConfig(m=4, codes="first", **TINY),
    ],
    ids=["bi", "poly", "first"],
)
def test_a_device_picks_the_same_candidate_as_the_search(config, tmp_path):
    tokenizer = letters()
    save(tmp_path / "m", build_module(config, tokenizer.rows), tokenizer, max_length=20, card="")
    encoder = load(tmp_path / "m")
    searched = reply_speed.Indexed(encoder, 500)
    multiplied = reply_speed.OnCard(encoder, 500, "cpu")
    for newest in CONTEXT:
        context = [*CONTEXT, newest]
        encoded = searched.encode(context)
        assert multiplied.pick(context, encoded) == searched.pick(context, encoded)
