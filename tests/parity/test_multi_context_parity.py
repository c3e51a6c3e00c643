"""Multi-context ConveRT, from texts to vectors, against a second implementation: one conversation at a time."""

import numpy as np
import pytest
import torch

from rejoinder.models.convert import ConvertConfig, MultiContextConvert
from rejoinder.models.encoder import Encoder
from rejoinder.text.subwords import Subwords
from tests.parity.test_convert_parity import SMALL, encode, head, trunk

SUBWORDS = Subwords([chr(0xFE4F), *"abcdefghijklmnopqrstuvwxyz0123456789: .,?!'", chr(0xFE4F) + "the"], buckets=5)
CONTEXTS = [
    ["How are you?"],
    ["Hello there!", "How are you?"],
    [f"Message number {i} says the same as the others, or nearly." for i in range(14)],
    ["the first", "the second", "the third"],
]


def history_of(context, numbered):
    """Newest first, at most ten, joined with a space, the first 60 tokens."""
    earlier = context[:-1]
    text = ""
    for place in range(min(10, len(earlier))):
        message = earlier[len(earlier) - 1 - place]
        text += (" " if place else "") + (f"{place}: " if numbered else "") + message
    return SUBWORDS.encode(text)[:60]


def reference(context, w, config):
    """h_x, h_z and the combined encoding of one conversation."""
    before = config.norm_placement == "before"
    h_x, _ = encode(SUBWORDS.encode(context[-1])[:60], w, config)
    tokens = history_of(context, config.numbered_history)
    h_z = head(trunk(tokens, w, config), w, "history_head", before=before) if tokens else np.zeros_like(h_x)
    return h_x, h_z, head((h_x + h_z) / 2, w, "combined_head", before=before)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_placement": "before", "initialisation": "unit"},
        {"numbered_history": True},
        {"feed_forward_2_size": 24},
    ],
    ids=["the paper's layout", "norm before each part", "numbered messages", "a combiner of the encodings' size"],
)
def test_encodings(changes):
    config = ConvertConfig(**{**SMALL, "history": 10, **changes})
    torch.manual_seed(0)
    network = MultiContextConvert(config, SUBWORDS.rows).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.05)
    w = {name: value.double().numpy() for name, value in network.state_dict().items()}
    encoder = Encoder(network, SUBWORDS, max_length=60, fingerprint="f")
    found = [encoder.by("input"), encoder.by("history"), encoder]
    vectors = [each.encode_contexts(CONTEXTS) for each in found]
    for i, context in enumerate(CONTEXTS):
        for vector, expected in zip(vectors, reference(context, w, config), strict=True):
            assert np.abs(vector[i] - expected).max() < 2e-5
