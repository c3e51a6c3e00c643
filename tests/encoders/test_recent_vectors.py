"""Texts that were read last are not read again: the earlier messages of a chat that grows."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rejoinder
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.encoders.vector_cache import RecentVectors
from rejoinder.encoders.sentence import SentenceEncoder
from rejoinder.serving.worker import opening
from rejoinder.serving.worker.answers import Question
from rejoinder.serving.worker.sources import Sources
from tests.encoders import tiny_transformer

CHAT = ["hello there", "how are you today", "fine thanks", "and what about the cats"]


def bi_encoder(folder):
    return tiny_transformer.opened(folder, "multi-context-bi-encoder", context_length=None)


def recorded(monkeypatch, encoder):
    """Let an encoder note the texts that it reads; return the list of them."""
    read = []
    blocks = type(encoder)._blocks

    def noted(self, texts, side):
        read.extend(texts)
        return blocks(self, texts, side)

    monkeypatch.setattr(type(encoder), "_blocks", noted)
    return read


def test_with_each_turn_of_a_chat_only_its_new_messages_are_read(tmp_path, monkeypatch):
    encoder = bi_encoder(tmp_path)
    expected = [encoder.encode_contexts([CHAT[:turn]]) for turn in (1, 3, 4)]
    read = recorded(monkeypatch, encoder)
    recent = encoder.with_recent()
    for turn, new, vectors in zip((1, 3, 4), (CHAT[:1], CHAT[1:3], CHAT[3:]), expected, strict=True):
        read.clear()
        found = recent.with_cache().encode_contexts([CHAT[:turn]])
        assert sorted(read) == sorted(new)
        np.testing.assert_allclose(found, vectors, atol=1e-5)
    read.clear()
    encoder.with_cache().encode_contexts([CHAT])
    assert sorted(read) == sorted(CHAT)  # the encoder itself keeps nothing


def test_both_parts_of_a_joined_model_keep_what_they_have_read(tmp_path, monkeypatch):
    joined = JoinedEncoder(bi_encoder(tmp_path / "a"), bi_encoder(tmp_path / "b"), 0.3)
    expected = joined.encode_queries([CHAT])
    read = recorded(monkeypatch, joined.parts[0])
    recent = joined.with_recent()
    recent.with_cache().encode_queries([CHAT[:3]])
    assert sorted(read) == sorted(CHAT[:3] * 2)
    read.clear()
    np.testing.assert_allclose(recent.with_cache().encode_queries([CHAT]), expected, atol=1e-5)
    assert read == CHAT[3:] * 2


def test_an_encoder_of_sentences_keeps_its_vectors_too():
    read = []

    def encode(texts, _):
        read.extend(texts)
        return np.array([[len(text), 1.0] for text in texts], np.float32)

    recent = SentenceEncoder("letters", encode).with_history().with_recent()
    first = recent.with_cache().encode_contexts([CHAT])
    np.testing.assert_array_equal(recent.with_cache().encode_contexts([CHAT]), first)
    assert sorted(read) == sorted(CHAT)


def test_the_texts_that_nobody_has_read_for_longest_are_forgotten():
    recent = RecentVectors(most=2)
    block = np.arange(12, dtype=np.float32).reshape(3, 4)
    recent.add({("a", "x"): block[0], ("a", "y"): block[1]})
    assert recent.find([("a", "x")])[("a", "x")].base is None  # not all of the block
    recent.add({("b", "x"): block[2]})
    found = recent.find([("a", "x"), ("a", "y"), ("b", "x")])
    assert {key: row.tolist() for key, row in found.items()} == {
        ("a", "x"): [0, 1, 2, 3],
        ("b", "x"): [8, 9, 10, 11],
    }


def test_threads_find_whole_vectors_of_their_own_texts():
    recent = RecentVectors(most=50)

    def work(seed):
        for number in range(300):
            key = ("", str((7 * number + seed) % 80))
            found = recent.find([key])
            if found and found[key].tolist() != [int(key[1])] * 3:
                return False
            recent.add({key: np.full(3, int(key[1]), np.float32)})
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(recent.find([("", str(number)) for number in range(80)])) == 50


@pytest.fixture
def server(tmp_path):
    encoder = bi_encoder(tmp_path / "m")
    rejoinder.Index.build(encoder, ["they sleep all day", "in sun", "thanks"], tmp_path / "index")
    opened = opening.open_answers(Sources(index=tmp_path / "index"))
    yield opened
    opened.close()


def test_a_server_reads_only_the_new_messages_of_a_chat(server, monkeypatch):
    read = recorded(monkeypatch, server.encoder)
    server.replies([Question(CHAT[:3])])
    assert set(CHAT[:3]) <= set(read)
    read.clear()
    [answer] = server.replies([Question(CHAT)])
    assert read
    assert not set(read) & set(CHAT[:3])
    plain = opening.open_encoder(str(server.encoder.name))
    [expected] = rejoinder.Index.open(server.index.store, plain).search([CHAT])
    assert [reply["text"] for reply in answer["replies"]] == [reply.text for reply in expected]


def test_a_server_has_made_what_typos_and_closings_need_before_its_first_request(server, monkeypatch):
    def fail(*_):
        pytest.fail("made while a request waits")

    monkeypatch.setattr("rejoinder.retrieval.choice.closings._measure", fail)
    for module in ("english", "own_words"):
        monkeypatch.setattr(f"rejoinder.text.words.{module}.WordList", fail)
    typo, closing = server.replies([Question(["they slepe"]), Question(["it is fixed now, thanks"])])
    assert typo["notes"]["corrected"]
    assert closing["replies"]
