"""ConveRT against a second implementation: one text at a time, loops over positions, no shared code."""

import math

import numpy as np
import pytest
import torch

from rejoinder.models.convert import Convert, ConvertConfig
from rejoinder.models.packing import pack


def normed(x, weights, name):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


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
        x = skip + gate(entering @ w[f"{name}.layers.{layer}.weight"].T + w[f"{name}.layers.{layer}.bias"])
        x = x if before else normed(x, w, f"{name}.norms.{layer}")
    h = x @ w[f"{name}.output.weight"].T + w[f"{name}.output.bias"]
    return h / np.linalg.norm(h)


def trunk(ids, w, config):
    """r of one text."""
    before = config.norm_placement == "before"
    scale = math.sqrt(config.embedding_size) if config.initialisation == "paper" else 1.0
    rows = [
        w["token_embedding.subwords.weight"][token] * scale
        + w["token_embedding.positions.0.weight"][i % 47]
        + w["token_embedding.positions.1.weight"][i % 11]
        for i, token in enumerate(ids)
    ]
    x = normed(np.stack(rows), w, "token_embedding.norm")
    for b, span in enumerate(config.attention_spans):
        name = f"blocks.{b}"
        if before:
            x = x + attention(normed(x, w, f"{name}.attention_norm"), w, f"{name}.attention", span, 8)
            x = x + feed_forward(normed(x, w, f"{name}.feed_forward_norm"), w, f"{name}.feed_forward")
        else:
            x = normed(x + attention(x, w, f"{name}.attention", span, 8), w, f"{name}.attention_norm")
            x = normed(x + feed_forward(x, w, f"{name}.feed_forward"), w, f"{name}.feed_forward_norm")
    if before:
        x = normed(x, w, "final_norm")
    return reduction(x, w, 8)


def encode(ids, w, config):
    """h_x and h_y of one text."""
    r, before = trunk(ids, w, config), config.norm_placement == "before"
    return head(r, w, "context_head", before=before), head(r, w, "response_head", before=before)


def check(config):
    torch.manual_seed(0)
    network = Convert(config, 90).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.05)
    w = {name: value.double().numpy() for name, value in network.state_dict().items()}
    lengths = np.array([60, 1, 13, 13, 2, 48], dtype=np.int32)
    ids = np.random.default_rng(0).integers(0, 89, lengths.sum()).astype(np.int32)
    with torch.no_grad():
        x, _ = network(pack(ids, lengths, 89), 6)
        _, y = network(pack(ids, lengths, 89), 0)
    starts = np.cumsum(lengths) - lengths
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        expected_x, expected_y = encode(ids[start : start + length], w, config)
        assert np.abs(x[i].numpy() - expected_x).max() < 2e-5
        assert np.abs(y[i].numpy() - expected_y).max() < 2e-5


SMALL = {
    "embedding_size": 32,
    "blocks": 2,
    "attention_spans": (3, 48),
    "head_size": 8,
    "feed_forward_size": 64,
    "feed_forward_2_size": 48,
    "output_size": 24,
}


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm_placement": "before", "initialisation": "unit"}, {"feed_forward_2_size": 64}],
    ids=["the paper's layout", "norm before each part", "skips without widening"],
)
def test_encodings(changes):
    check(ConvertConfig(**(SMALL | changes)))
