"""The n-gram dual encoder against a second implementation: one text at a time, loops, no shared code."""

import math
import re
import zlib
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.networks.ngram import NGramConfig, NGramDual
from rejoinder.networks.packing import pack
from rejoinder.text.ngrams import build_ngrams

TEXTS = [
    "how are you today?",
    "I don't know, you?",
    "you don't know 12345 or 1234",
    "How are YOU",
    "",
    " ... ",
    "supercalifragilistic words",
    "a-b a-b a-b :) :)",
    "today you know how",
    "x\x00y\u00a0z \u2019s don\u2019t",
]
WORD = re.compile(r"[a-z0-9$+<=>^`|~]+(?:'[a-z0-9$+<=>^`|~]+)*|[!-#%-*,-/:;?@\[-\]_{}]+")


def words(text):
    """Of ASCII text: marked, numbers and long words replaced."""
    found = WORD.findall(text.lower())
    found = [re.sub(r"\d{5,}", lambda number: "#" * len(number.group()), word) for word in found]
    found = ["LONGWORD" if len(word) > 16 else word for word in found]
    return ["<S>", *found, "</S>"] if found else []


def scrambled(number):
    """SplitMix64's finaliser in whole numbers of Python."""
    mask = 2**64 - 1
    number = (number + 0x9E3779B97F4A7C15) & mask
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & mask
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & mask
    return number ^ (number >> 31)


def row(tokenizer, text):
    """Ids of a text, by dictionaries."""
    unigrams = {word: i for i, word in enumerate(tokenizer.unigrams)}
    bigrams = {tuple(pair): len(unigrams) + i for i, pair in enumerate(tokenizer.bigrams.tolist())}
    bucket = len(unigrams) + len(bigrams)
    ones = [
        unigrams.get(word, bucket + zlib.crc32(word.encode()) % tokenizer.buckets)
        for word in words(text)
    ]
    ids = []
    for here, following in zip(ones, [*ones[1:], None], strict=False):
        ids.append(here)
        if following is not None:
            key = here * tokenizer.rows + following
            ids.append(bigrams.get((here, following), bucket + scrambled(key) % tokenizer.buckets))
    return ids


@pytest.fixture(scope="module")
def tokenizer():
    return build_ngrams(TEXTS, minimum_count=2, bigrams=12, buckets=7)


@given(st.lists(st.text(st.characters(codec="ascii"), max_size=60), max_size=4), st.integers(1, 12))
def test_rows_of_ids(tokenizer, texts, longest):
    ids, lengths = tokenizer.encode_ragged([*texts, TEXTS[0]])
    expected = [row(tokenizer, text) for text in [*texts, TEXTS[0]]]
    assert lengths.tolist() == [len(each) for each in expected]
    assert ids.tolist() == [number for each in expected for number in each]
    assert ids.dtype == lengths.dtype == np.int32
    cut, lengths = tokenizer.encode_ragged([*texts, TEXTS[0]], longest)
    assert cut.tolist() == [number for each in expected for number in each[: 2 * longest - 1]]


def test_the_vocabulary_is_that_of_plain_counting():
    ascii_texts = [text for text in TEXTS if text.isascii()]
    tokenizer = build_ngrams(ascii_texts, minimum_count=2, bigrams=5, buckets=7)
    counts = Counter(word for text in ascii_texts for word in words(text))
    kept = sorted(
        (word for word, count in counts.items() if count >= 2 and word not in ("<S>", "</S>")),
        key=lambda word: (-counts[word], word),
    )
    assert list(tokenizer.unigrams) == ["<S>", "</S>", *kept]
    pairs = Counter(
        pair for text in ascii_texts for pair in zip(words(text), words(text)[1:], strict=False)
    )
    known = {pair: count for pair, count in pairs.items() if set(pair) <= set(tokenizer.unigrams)}
    rank = {word: i for i, word in enumerate(tokenizer.unigrams)}
    best = sorted(known, key=lambda pair: (-known[pair], rank[pair[0]], rank[pair[1]]))[:5]
    assert [
        tuple(tokenizer.unigrams[i] for i in pair) for pair in tokenizer.bigrams.tolist()
    ] == best


def encode(w, ids, side, *, layers, bigrams=True, attention=True, positions=True, act):
    """h of one text of given ids, in numpy."""
    kinds = [ids[0::2], ids[1::2]][: 2 if bigrams else 1]
    sums = []
    for kind, own in enumerate(kinds):
        x = [w["embedding.weight"][number] for number in own]
        if positions:
            x = [each + w[f"positions.{kind}.weight"][place % 16] for place, each in enumerate(x)]
        total = np.zeros(w["embedding.weight"].shape[1])
        if attention and own:
            query, key = np.split(w[f"reductions.{kind}.query_key.weight"], 2)
            for i in range(len(own)):
                powers = [math.exp((query @ x[i]) @ (key @ x[j])) for j in range(len(own))]
                total += sum(
                    power / sum(powers) * each for power, each in zip(powers, x, strict=True)
                )
        elif own:
            total += sum(x)
        sums.append(total / math.sqrt(max(len(own), 1)))
    h = sum(sums) / len(sums)
    for layer in range(layers):
        h = act(w[f"{side}_head.{2 * layer}.weight"] @ h + w[f"{side}_head.{2 * layer}.bias"])
    h = w[f"{side}_head.{2 * layers}.weight"] @ h + w[f"{side}_head.{2 * layers}.bias"]
    return h / np.linalg.norm(h)


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({}, {}),
        ({"self_attention": False}, {"attention": False}),
        ({"self_attention": False, "positions": 0}, {"attention": False, "positions": False}),
        ({"bigrams": False}, {"bigrams": False}),
        ({"activation": "tanh", "hidden_layers": 1}, {"layers": 1, "act": np.tanh}),
    ],
    ids=["paper", "no attention", "no attention, no positions", "no bigrams", "tanh, one layer"],
)
def test_encodings(tokenizer, changes, how):
    torch.manual_seed(0)
    sizes = {
        "embedding_size": 12,
        "positions": 16,
        "head_size": 4,
        "hidden_size": 10,
        "output_size": 8,
    }
    network = NGramDual(NGramConfig(**sizes | changes), tokenizer.rows).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.4)
    weights = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    texts = [text for text in TEXTS if text.isascii() and words(text)] + ["you know " * 15, "you"]
    ids, lengths = tokenizer.encode_ragged(texts)
    with torch.no_grad():
        batch = pack(ids, lengths, tokenizer.padding_id)
        ours = {side: network.encode(batch, side) for side in ("context", "response")}
    options = {"layers": 3, "act": lambda x: x / (1 + np.exp(-x))} | how
    for i, text in enumerate(texts):
        for side, vectors in ours.items():
            expected = encode(weights, row(tokenizer, text), side, **options)
            assert np.abs(vectors[i].numpy() - expected).max() < 1e-5, (text, side)
