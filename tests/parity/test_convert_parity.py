"""ConveRT, from texts to vectors, against a second implementation: one text at a time, loops, no shared code."""

import math

import numpy as np
import pytest

from rejoinder.encoders.torch import Encoder
from tests.encoders.conftest import SUBWORDS, convert

CONTEXTS = [
    ["How are you?"],
    ["Hello there!", "How are you?"],
    [f"Message number {i} says the same as the others, or nearly." for i in range(14)],
    ["the first", "the second", "the third"],
]
RESPONSES = ["x", "fine, thanks", "see the cat " * 30]


def normed(x, weights, name):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weights[f"{name}.weight"] + weights[
        f"{name}.bias"
    ]


def gate(x):
    return x / (1 + np.exp(-1.702 * x))


def softmax(values):
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def attention(x, w, name, span, size):
    q, k, v = np.split(x @ w[f"{name}.qkv.weight"].T, 3, axis=1)
    rows = []
    for i in range(len(x)):
        near = [j for j in range(len(x)) if abs(j - i) <= span]
        scores = [q[i] @ k[j] / math.sqrt(size) + w[f"{name}.bias"][0, j - i + span] for j in near]
        rows.append(sum(a * v[j] for a, j in zip(softmax(np.array(scores)), near, strict=True)))
    return np.stack(rows) @ w[f"{name}.output.weight"].T + w[f"{name}.output.bias"]


def feed_forward(x, w, name):
    hidden = gate(x @ w[f"{name}.expand.weight"].T + w[f"{name}.expand.bias"])
    return hidden @ w[f"{name}.contract.weight"].T + w[f"{name}.contract.bias"]


def reduction(x, w, size):
    projected = x @ w["reduction.query_key.weight"].T
    parts = []
    for head in range(2):
        q = projected[:, head * size : (head + 1) * size]
        k = projected[:, (2 + head) * size : (3 + head) * size]
        total = sum(softmax(q[i] @ k.T) for i in range(len(x)))
        parts.append(total @ x / math.sqrt(len(x)))
    return np.concatenate(parts)


def head(r, w, name, *, before):
    x = r
    for layer in range(3):
        entering = normed(x, w, f"{name}.norms.{layer}") if before else x
        skip = x @ w[f"{name}.widen.weight"].T if layer == 0 and f"{name}.widen.weight" in w else x
        x = skip + gate(
            entering @ w[f"{name}.layers.{layer}.weight"].T + w[f"{name}.layers.{layer}.bias"]
        )
        x = x if before else normed(x, w, f"{name}.norms.{layer}")
    h = x @ w[f"{name}.output.weight"].T + w[f"{name}.output.bias"]
    return h / np.linalg.norm(h)


def trunk(text, w, config, *, before):
    """r of one text, of which the first 60 tokens are read."""
    ids = SUBWORDS.encode(text)[:60]
    scale = math.sqrt(config.embedding_size) if config.initialisation == "paper" else 1.0
    words, first, second = (
        w[f"token_embedding.{n}.weight"] for n in ("subwords", "positions.0", "positions.1")
    )
    rows = [words[token] * scale + first[i % 47] + second[i % 11] for i, token in enumerate(ids)]
    x = normed(np.stack(rows), w, "token_embedding.norm")
    for b, span in enumerate(config.attention_spans):
        name = f"blocks.{b}"
        if before:
            x = x + attention(
                normed(x, w, f"{name}.attention_norm"), w, f"{name}.attention", span, 8
            )
            x = x + feed_forward(
                normed(x, w, f"{name}.feed_forward_norm"), w, f"{name}.feed_forward"
            )
        else:
            x = normed(
                x + attention(x, w, f"{name}.attention", span, 8), w, f"{name}.attention_norm"
            )
            x = normed(
                x + feed_forward(x, w, f"{name}.feed_forward"), w, f"{name}.feed_forward_norm"
            )
    if before:
        x = normed(x, w, "final_norm")
    return reduction(x, w, 8)


def history_of(context, numbered):
    """Newest first, at most ten, joined with a space."""
    newest = context[-2::-1][:10]
    return " ".join(
        f"{place}: {message}" if numbered else message for place, message in enumerate(newest)
    )


def reference(context, w, config, *, before):
    """h_x, h_z and the combined encoding of one conversation."""
    h_x = head(trunk(context[-1], w, config, before=before), w, "context_head", before=before)
    h_z, text = np.zeros_like(h_x), history_of(context, config.numbered_history)
    if text:
        h_z = head(trunk(text, w, config, before=before), w, "history_head", before=before)
    return h_x, h_z, head((h_x + h_z) / 2, w, "combined_head", before=before)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="the paper's layout"),
        pytest.param(
            {"norm_placement": "before", "initialisation": "unit"}, id="norm before each part"
        ),
        pytest.param({"numbered_history": True}, id="numbered messages"),
        pytest.param({"feed_forward_2_size": 24}, id="a combiner of the encodings' size"),
        pytest.param({"feed_forward_2_size": 64}, id="skips without widening"),
    ],
)
def test_encodings(changes):
    network = convert(history=10, **changes)
    config, before = network.config, network.config.norm_placement == "before"
    w = {name: value.double().numpy() for name, value in network.state_dict().items()}
    encoder = Encoder(network, SUBWORDS, max_length=60, fingerprint="f")
    found = [
        each.encode_contexts(CONTEXTS)
        for each in (encoder.by("input"), encoder.by("history"), encoder)
    ]
    for i, context in enumerate(CONTEXTS):
        for vectors, expected in zip(
            found, reference(context, w, config, before=before), strict=True
        ):
            assert np.abs(vectors[i] - expected).max() < 2e-5
    for text, vector in zip(RESPONSES, encoder.encode_responses(RESPONSES), strict=True):
        expected = head(trunk(text, w, config, before=before), w, "response_head", before=before)
        assert np.abs(vector - expected).max() < 2e-5
