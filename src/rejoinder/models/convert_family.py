"""ConveRT as a kind of model: "convert"."""

from __future__ import annotations

from rejoinder.models.convert import Convert, ConvertConfig
from rejoinder.models.encoder import Encoder
from rejoinder.models.families import Family
from rejoinder.models.inference import pack_linears
from rejoinder.models.multi_context import MultiContextConvert
from rejoinder.text.subwords import Subwords


def build(config: ConvertConfig, rows: int) -> Convert:
    """A new network: multi-context where the configuration reads a history."""
    return MultiContextConvert(config, rows) if config.history else Convert(config, rows)


FAMILY = Family(
    config=ConvertConfig,
    build=build,
    vocabulary="subwords",
    load_tokenizer=Subwords.load,
    prepare=pack_linears,
    open=Encoder,
)
