"""What a conversation asks of a search: how much is read, nothing said twice, suggestions that differ."""

import shutil
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.conversations import read_contexts
from rejoinder.corpora.keys import words_of
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.cascade import Cascade
from tests.encoders.small import small_model
from tests.retrieval.conftest import HashEncoder, TableEncoder
from tests.retrieval.test_cascade import ByLength

REPLIES = ["Hello!", "hello", "At noon.", "At  NOON", "We open at nine.", "Two cats."]


def texts(found):
    return [[reply.text for reply in replies] for replies in found]


@pytest.fixture
def index(tmp_path, encoder):
    return Index.build(encoder, REPLIES, tmp_path / "index")


def test_history_says_how_much_is_read(tmp_path):
    class Reading(HashEncoder):
        def encode_contexts(self, contexts):
            self.read = contexts
            return super().encode_contexts(contexts)

    encoder = Reading()
    index = Index.build(encoder, REPLIES, tmp_path / "index")
    for history, wanted in ((None, ["a", "b", "c"]), (5, ["a", "b", "c"]), (1, ["b", "c"]), (0, ["c"])):
        index.search([["a", "b", "c"]], history=history)
        assert encoder.read == [wanted]
    with pytest.raises(InputError, match="history is -1"):
        index.search([["a"]], history=-1)


class OfSubjects(HashEncoder):
    """To it a message goes on with the subject where it says the same as the one before."""

    subject_threshold = 0.5

    def encode_contexts(self, contexts):
        self.read = [list(context) for context in contexts]
        return super().encode_contexts(contexts)


PERSONA = "your persona: i ski. your persona: i cook."


@pytest.mark.parametrize(("context", "history", "wanted"), [
    (["a", "b", "b"], None, ["a", "b", "b"]),
    (["a", "b", "c"], None, ["c"]),
    (["a", "b", "c"], 1, ["b", "c"]),
    (["c"], None, ["c"]),
    ([PERSONA, "c"], None, [PERSONA, "c"]),
    ([PERSONA, "a", "b", "c"], None, [PERSONA, "c"]),
    ([PERSONA, "a", "b", "c"], 1, [PERSONA, "b", "c"]),
    ([PERSONA, "a", "b", "c"], 0, [PERSONA, "c"]),
    ([PERSONA, "a", "b", "b"], None, [PERSONA, "a", "b", "b"]),
    ([" ", "c"], None, [" ", "c"]),
])  # fmt: skip
def test_earlier_messages_of_another_subject_are_not_read(tmp_path, context, history, wanted):
    encoder = OfSubjects()
    index = Index.build(encoder, REPLIES, tmp_path / "index")
    index.search([["x"], context], history=history)
    assert encoder.read == [["x"], wanted]
    read = []

    class Reading(ByLength):
        def score(self, contexts, candidates):
            read.extend(contexts)
            return super().score(contexts, candidates)

    Cascade(index, Reading(), rerank=3).search([context], 1, history=history)
    assert read == [wanted]
    encoder.subject_threshold = 0.0
    index.search([context])
    assert encoder.read == [context], "without a threshold all is read"


def test_models_say_from_where_on_a_message_has_to_do_with_the_earlier_ones(tmp_path):
    models = [small_model(tmp_path / str(number), history=3, subject_threshold=number / 10) for number in (2, 3)]
    assert [model.subject_threshold for model in (*models, JoinedEncoder(*models))] == [0.2, 0.3, 0.2]
    talk, model = ["number 1", "reply", "number"], models[0]
    cosine = float(model.encode_contexts([talk[:-1]])[0] @ model.encode_responses(talk[-1:])[0])
    index = Index.build(model, REPLIES, tmp_path / "index")
    for threshold, read in ((cosine - 0.01, talk), (cosine + 0.01, talk[-1:])):
        model.subject_threshold = threshold
        assert index.search([talk], 6) == index.search([read], 6, history=3)


def test_what_the_answering_side_said_does_not_come_again(index):
    context = ["Hi", "hello", "When?", "At noon!", "And where?"]
    [all_of_them], [new] = texts(index.search([context], k=6, distinct=False)), texts(index.search([context], k=6, no_repeat=True, distinct=False))
    assert sorted(all_of_them) == sorted(REPLIES)
    assert sorted(new) == ["Two cats.", "We open at nine."]
    [first] = texts(index.search([context], k=1, no_repeat=True))
    assert first == new[:1]


def test_a_word_may_be_said_back_as_the_first_answer_alone(index):
    [hello, noon, later] = texts(
        index.search([["Hello!"], ["At noon."], ["Hello!", "Two cats.", "Hi"]], k=6, no_repeat=True, distinct=False)
    )
    assert sorted(hello) == sorted(REPLIES)
    assert sorted(noon) == ["Hello!", "Two cats.", "We open at nine.", "hello"]
    assert sorted(later) == ["At  NOON", "At noon.", "We open at nine."]


def test_roles_say_which_side_said_what(index):
    user, agent = ({"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Two cats."})
    system = {"role": "system", "content": "At noon."}
    [first, later] = texts(index.search([[system, user, user], [system, agent, user]], k=6, no_repeat=True, distinct=False))
    assert sorted(first) == sorted(REPLIES)
    assert sorted(later) == ["At  NOON", "At noon.", "We open at nine."]


def test_what_one_role_says_at_once_is_read_as_one_message_and_not_said_again_piece_by_piece(index):
    said = ["user Hi", "assistant Two cats.", "assistant We open at nine.", "tool x", "user a", "user b"]
    chat = [dict(zip(("role", "content"), each.split(" ", 1), strict=True)) for each in said]
    chat.insert(3, {"role": "assistant", "content": None, "tool_calls": []})
    assert read_contexts([chat]) == [["Hi", "Two cats. We open at nine.", "a b"]]
    [found] = texts(index.search([chat], k=6, no_repeat=True, distinct=False))
    assert sorted(found) == sorted(set(REPLIES) - {"Two cats.", "We open at nine."})


def test_content_in_parts_is_read_as_its_texts_and_a_call_without_any_is_left_out():
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
    parts = [{"type": "text", "text": "Is this"}, {"type": "image_url", "image_url": {"url": "x"}}, "yours?"]
    chat = [{"role": "user", "content": "Hi"}, call, {"role": "assistant", "content": "It is 42."}]
    assert read_contexts([[*chat, {"role": "user", "content": parts}]]) == [["Hi", "It is 42.", "Is this\nyours?"]]


def test_suggestions_differ(index):
    [found] = texts(index.search([["x"]], k=6, distinct=True))
    assert len(found) == 4
    assert {" ".join(words_of(text)) for text in found} == {"hello", "at noon", "we open at nine", "two cats"}
    [best] = texts(index.search([["x"]], k=6, distinct=False))
    assert found == [text for text in best if text in found]


def test_near_copies_are_one_suggestion(tmp_path):
    table = np.array([[1, 0, 0], [0.999, 0.0447, 0], [0, 1, 0], [0.8, 0.6, 0]], np.float32)
    index = Index.build(TableEncoder(table), ["0", "1", "2", "3"], tmp_path / "index")
    assert texts(index.search([["0"]], k=4, distinct=True)) == [["0", "3", "2"]]


@given(count=st.integers(1, 60), k=st.integers(1, 8), copies=st.integers(1, 30))
def test_choosing_while_searching_is_choosing_afterwards(tmp_path_factory, count, k, copies):
    rng = np.random.default_rng(count)
    table = rng.standard_normal((count, 8)).astype(np.float32)
    table[:copies] = table[0]
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    index = Index.build(TableEncoder(table), [str(i) for i in range(count)], tmp_path_factory.mktemp("i") / "index")
    context, said = ["0", "0", "0"], {"0"}
    wanted = []
    for reply in index.search([context], k=count, distinct=False)[0]:
        copy = any(table[int(reply.text)] @ table[int(other)] >= 0.95 for other in wanted)
        if reply.text not in said and not copy:
            wanted.append(reply.text)
    assert texts(index.search([context], k=k, no_repeat=True, distinct=True)) == [wanted[:k]]


@given(count=st.integers(1, 60), k=st.integers(1, 4), diversity=st.sampled_from([0, 0.3, 0.5, 0.9, 1]))
def test_diversity_is_maximal_marginal_relevance(tmp_path_factory, count, k, diversity):
    table = np.random.default_rng(count).standard_normal((count + 1, 3)).astype(np.float32)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    index = Index.build(TableEncoder(table), [str(i) for i in range(count)], tmp_path_factory.mktemp("i") / "index")
    [pool] = index.search([[str(count)]], k=10 * k, distinct=False)
    chosen = []
    while len(chosen) < min(k, count):
        rest = [reply for reply in pool if reply not in chosen]

        def gain(reply):
            near = [float(table[reply.position] @ table[other.position]) for other in chosen]
            return (1 - diversity) * reply.score - diversity * max(near, default=0)

        chosen.append(max(rest, key=gain) if chosen else rest[0])
    assert index.search([[str(count)]], k=k, diversity=diversity, distinct=False) == [chosen]


def test_near_duplicates_are_those_of_a_plain_loop_however_many_replies_there_are(tmp_path):
    rng = np.random.default_rng(0)
    count, size = 900, 24
    table = rng.standard_normal((500, size))[rng.integers(500, size=count + 1)] + 0.17 * rng.standard_normal((count + 1, size))
    table = (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)
    index = Index.build(TableEncoder(table), [str(i) for i in range(count)], tmp_path / "index")
    kept = []
    for reply in index.search([[str(count)]], k=count, distinct=False)[0]:
        if not any(table[reply.position] @ table[other] >= 0.95 for other in kept):
            kept.append(reply.position)
    assert 256 < len(kept) < count - 100
    for k in (1, 300, count):
        assert [reply.position for reply in index.search([[str(count)]], k=k)[0]] == kept[:k]


def test_many_diverse_replies_take_little_more_than_a_few(tmp_path):
    table = np.random.default_rng(0).standard_normal((10_001, 256)).astype(np.float32)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    index = Index.build(TableEncoder(table), [str(i) for i in range(10_000)], tmp_path / "index")
    start = time.process_time()
    assert len(index.search([["10000"]], k=1000, diversity=0.5)[0]) == 1000
    assert time.process_time() - start < 10


@pytest.mark.parametrize("diversity", [-0.1, 1.1, float("nan")])
def test_a_diversity_out_of_range_is_refused(index, diversity):
    with pytest.raises(InputError, match=r"diversity is .*; it goes from 0"):
        index.search([["x"]], diversity=diversity)


def test_a_slow_ranker_gets_what_is_left(index):
    slow = ByLength()
    contexts = [["Hi", "Hello!", "x"], ["x"]]
    found = Cascade(index, slow, rerank=6).search(contexts, k=3, no_repeat=True, distinct=True, history=0)
    assert [len(replies) for replies in found] == [3, 3]
    assert sorted(map(len, slow.asked)) == [3, 4]
    assert "hello" not in {reply.text.lower().strip("!") for reply in found[0]}


def test_an_index_finds_its_model(tmp_path):
    built = Index.build(small_model(tmp_path / "model"), REPLIES, tmp_path / "index")
    assert texts(Index.open(tmp_path / "index").search([["a cat"]])) == texts(built.search([["a cat"]]))
    shutil.rmtree(tmp_path / "model")
    shutil.copytree(small_model(tmp_path / "other", output_size=16).name, tmp_path / "model")
    with pytest.raises(InputError, match="was built with"):
        Index.open(tmp_path / "index").search([["a cat"]])
