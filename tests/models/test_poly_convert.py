"""The poly-encoder on ConveRT's trunk."""

import numpy as np
import torch

from rejoinder.models.attended import own_scores
from rejoinder.models.families import build_module
from rejoinder.models.packing import pack
from rejoinder.models.persistence import load, save
from rejoinder.models.reductions import mean
from rejoinder.text.subwords import Subwords
from tests.models.conftest import lively, random_texts, small_config

ROWS = 120


def network(rows=ROWS, **changes):
    torch.manual_seed(0)
    values = {**vars(small_config()), "kind": "poly-convert", "m": 3, "context_length": 30, **changes}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return lively(build_module(values, rows)).eval()


def split(ids, lengths):
    return np.split(ids, np.cumsum(lengths)[:-1])


def test_a_context_has_the_same_vectors_alone_and_beside_others():
    module, (ids, lengths) = network(), random_texts(9, longest=20)
    with torch.inference_mode():
        together = module.encode(pack(ids, lengths, module.padding_id, 10_000), "context")
        alone = [
            module.encode(pack(text, np.array([len(text)], np.int32), module.padding_id), "context")
            for text in split(ids, lengths)
        ]
    assert together.shape == (9, 3, 24)
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-4)


def test_training_and_use_see_the_same_vectors():
    module, (ids, lengths) = network(), random_texts(8, longest=20)
    batch = pack(ids, lengths, module.padding_id)
    with torch.inference_mode():
        found = module.encode_pairs(batch, 4, torch.empty(0, dtype=torch.int64))
        torch.testing.assert_close(found["context"], module.encode(batch, "context")[:4])
        torch.testing.assert_close(found["response"], module.encode(batch, "response")[4:])
    scores = own_scores(found["context"], found["response"][:, None])
    assert scores.abs().max() <= module.magnitude.abs() + 1e-4


def test_at_the_start_each_code_sees_all_tokens_alike_and_with_a_wide_range_hardly_more_than_one():
    ids, lengths = random_texts(6, longest=20)
    batch = pack(ids, lengths, network().padding_id)
    spread = []
    for changes in ({}, {"code_range": 1.0}):
        values = {**vars(small_config()), "kind": "poly-convert", "embedding_size": 256, **changes}
        codes = build_module({n: [*v] if isinstance(v, tuple) else v for n, v in values.items()}, ROWS).codes
        x = torch.randn(len(batch.ids), 256)  # as the trunk's vectors are at the start
        vectors = codes(x, batch).detach()
        spread.append(float((vectors - mean(x, batch)[:, None]).norm() / vectors.norm()))
    assert spread[0] < 0.2 < 0.6 < spread[1]


def test_every_parameter_gets_a_gradient():
    module, (ids, lengths) = network(), random_texts(8, longest=60)
    found = module.encode_pairs(pack(ids, lengths, module.padding_id), 4, torch.empty(0, dtype=torch.int64))
    own_scores(found["context"], found["response"].expand(4, 4, -1)).square().sum().backward()
    assert not [name for name, parameter in module.named_parameters() if parameter.grad is None]


def test_a_folder_reads_whole_conversations(tmp_path):
    tokenizer = Subwords([chr(0xFE4F), *"abcdefghijklmnopqrstuvwxyz"], buckets=8)
    save(tmp_path / "model", network(tokenizer.rows), tokenizer, max_length=20, card="# A model\n")
    model = load(tmp_path / "model", precision="fp32")
    contexts = (["hello", "how are you"], ["how are you"])
    whole, newest = (model.score([context], [["fine", "no"]]) for context in contexts)
    assert not np.allclose(whole, newest)
    assert model.encode_contexts([["hello"]]).vectors.shape == (1, 3, 24)
