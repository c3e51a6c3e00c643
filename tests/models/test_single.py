import numpy as np
import pytest
import torch

from rejoinder.models.convert import Convert
from rejoinder.models.encoder import Encoder
from rejoinder.models.inference import FIXED_LENGTH, pack_linears
from rejoinder.models.packing import pack
from rejoinder.models.single import SingleTexts

from .conftest import ROWS, lively, small_config
from .test_encoder import SUBWORDS


def packed(precision):
    torch.manual_seed(0)
    return pack_linears(lively(Convert(small_config(), SUBWORDS.rows)), precision)


def text_of(length, seed=0):
    ids = np.random.default_rng(seed).integers(0, 30, length).astype(np.int32)
    return pack(ids, np.array([length], dtype=np.int32), ROWS - 1)


@pytest.mark.parametrize("side", ["context", "response", "reduction"])
def test_one_recording_gives_every_text_of_every_length_its_own_vector(side):
    network = packed("int8")
    singles = SingleTexts(network)
    with torch.inference_mode():
        for length in (*range(1, 20), FIXED_LENGTH):
            batch = text_of(length, seed=length)
            vector = singles(batch, side)
            assert vector is not None
            assert torch.allclose(vector, network.encode(batch, side), atol=1e-5)
    assert len(singles._recordings) == 1


def test_floats_several_texts_and_long_texts_are_computed_the_ordinary_way():
    two = pack(np.zeros(4, dtype=np.int32), np.array([2, 2], dtype=np.int32), ROWS - 1)
    for network, batch in ((packed("fp32"), text_of(5)), (packed("int8"), two), (packed("int8"), text_of(90))):
        singles = SingleTexts(network)
        with torch.inference_mode():
            assert singles(batch, "context") is None


def test_an_encoder_answers_the_same_the_first_and_the_tenth_time():
    encoder = Encoder(packed("int8"), SUBWORDS, max_length=60, fingerprint="f")
    vectors = [encoder.encode_responses(["how are you?"]) for _ in range(10)]
    assert all(np.abs(vector - vectors[0]).max() < 1e-5 for vector in vectors)
