"""An index answers exactly, brings payloads back, and refuses whatever is not what it was built from."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rejoinder
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.encoders.persistence import load
from rejoinder.processor import has_onednn
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.stores.folder.store import MANIFEST
from rejoinder.retrieval.options import SearchOptions
from rejoinder.encoders.vectors import check_rows
from rejoinder.retrieval.replies import Reply
from tests.corpora.jobs import Watched
from tests.encoders.conftest import saved
from tests.encoders.small import small_model
from tests.frames import DataFrame
from tests.retrieval.conftest import HashEncoder, TableEncoder
from tests.retrieval.test_scan import attended

TEXTS = [f"reply number {i}" for i in range(40)]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FILES = {"vectors.f32", "replies.jsonl", "offsets.i64"}
NOT_FINITE, MISSING = np.full((1, 3, 24), np.nan, np.float32), np.array([[1, 1, 0], [0, 0, 0]], bool)
REPLIES = [f"reply {i}" for i in range(60)]
CONTEXTS = [["reply 3", "reply 40"], ["reply 7"], ["one", "two", "three", "four"]]


@pytest.fixture
def index(tmp_path, encoder):
    return Index.build(encoder, TEXTS, tmp_path / "index", batch=7)


def segment(index):
    return next(index.folder.glob("segment-*"))


def test_the_best_reply_comes_first_with_score_and_position(index):
    [[best, second]] = index.search([["something before", "reply number 17"]], k=2)
    assert (best.text, best.position, dict(best.payload)) == ("reply number 17", 17, {})
    assert best.score == pytest.approx(1, abs=1e-6)
    assert second.score < 0.9
    found = index.search([["reply number 17"], ["nothing like it"]], k=1000, minimum_score=best.score)
    assert found == [[best], []], "the minimum itself counts"


@settings(max_examples=25)
@given(st.lists(st.tuples(st.text().filter(str.strip), st.dictionaries(st.text(), json_values, max_size=3)), max_size=9))
def test_texts_and_payloads_come_back_as_they_were(tmp_path_factory, entries):
    folder = tmp_path_factory.mktemp("index") / "index"
    encoder = TableEncoder(np.eye(9, dtype=np.float32))
    encoder.encode_responses = lambda texts: np.eye(9, dtype=np.float32)[: len(texts)]
    Index.build(encoder, [Candidate(text, payload) for text, payload in entries], folder)
    index = Index.open(folder, encoder)
    assert [(candidate.text, candidate.payload) for _, candidate in index] == entries
    if entries:
        [replies] = index.search_vectors(np.eye(9, dtype=np.float32)[:1], SearchOptions(k=1))
        assert replies == [Reply(entries[0][0], 1.0, 0, entries[0][1])]


@pytest.mark.parametrize(("candidate", "told"), [
    (Candidate("a", {"x": {1}}), "set"), (Candidate("a", {"x": float("nan")}), "float"), (Candidate("\ud800"), "utf-8"),
])  # fmt: skip
def test_what_json_cannot_hold_is_refused_with_the_position(tmp_path, encoder, candidate, told):
    with pytest.raises(InputError, match=f"reply 1 .*{told}"):
        Index.build(encoder, ["fine", candidate], tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reply", ["", " \n", Candidate("\t", title="Hours")])
def test_a_blank_reply_is_refused(tmp_path, encoder, reply):
    with pytest.raises(InputError, match="the text of a reply is blank"):
        Index.build(encoder, ["fine", reply], tmp_path / "index")
    assert list(tmp_path.iterdir()) == []
    index = Index.build(encoder, ["fine"], tmp_path / "index")
    with pytest.raises(InputError, match="the text of a reply is blank"):
        index.add([reply])
    assert len(index) == 1


def test_mistake_8_an_index_of_another_model_is_refused_though_its_name_is_the_same(index):
    """A cache keyed by file name answers after retraining (REFERENCE 7.8)."""
    retrained = HashEncoder(seed="retrained")
    with pytest.raises(InputError) as refused:
        Index.open(index.store, retrained)
    message = str(refused.value)
    assert index.manifest.model.fingerprint[:12] in message
    assert retrained.fingerprint[:12] in message
    assert "REJOINDER_MODEL" in message
    assert "\n" not in message


def test_mistake_8_the_fingerprint_covers_model_and_candidates(tmp_path, encoder):
    def fingerprint(name, encoder, replies):
        return Index.build(encoder, replies, tmp_path / name).fingerprint

    first = fingerprint("1", encoder, ["a", "b"])
    assert fingerprint("2", encoder, ["a", "b"]) == first
    assert fingerprint("3", encoder, ["b", "a"]) != first
    assert fingerprint("4", encoder, ["a", Candidate("b", {"id": 1})]) != first
    assert fingerprint("5", HashEncoder("retrained"), ["a", "b"]) != first


@pytest.mark.skipif(not has_onednn(), reason="a PyTorch without oneDNN")
def test_the_model_in_another_precision_searches_the_index_with_like_scores(tmp_path):
    """The fingerprint is the weights': each machine computes in what its processor has."""
    saved(tmp_path / "model", history=3)
    precise = load(tmp_path / "model", precision="fp32")
    eight_bits = load(tmp_path / "model", precision="int8")
    texts = ["how are you?", "fine, thanks", "bye!", "the cat sleeps"]
    expected = Index.build(precise, texts, tmp_path / "index").search([["bye!"]], k=4)[0]
    found = Index.open(tmp_path / "index", eight_bits).search([["bye!"]], k=4)[0]
    scores = {reply.text: reply.score for reply in found}
    assert scores == pytest.approx({reply.text: reply.score for reply in expected}, abs=0.05)
    assert scores != {reply.text: reply.score for reply in expected}


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "empty": lambda path: path.write_bytes(b""),
    "altered": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x07"),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_refused_by_name(index, encoder, how):
    assert {path.name for path in segment(index).iterdir()} == FILES
    for name in FILES:
        path = segment(index) / name
        content = path.read_bytes()
        DAMAGES[how](path)
        with pytest.raises(InputError, match=f"{name} (is missing|has|was altered).*again") as refused:
            Index.open(index.store, encoder)
        assert "\n" not in str(refused.value)
        path.write_bytes(content)
    Index.open(index.store, encoder)


@pytest.mark.parametrize(("content", "told"), [
    (b"{}", "damaged"), (b"\xff\xfe", "damaged"), (b'{"kind": "rejoinder index", "format": 99}', "update rejoinder"),
])  # fmt: skip
def test_a_foreign_manifest_is_refused(index, encoder, content, told):
    (index.folder / MANIFEST).write_bytes(content)
    with pytest.raises(InputError, match=f"manifest.json .*{told}"):
        Index.open(index.store, encoder)


def test_a_manifest_edited_by_hand_is_refused_but_the_place_of_the_model_may_change(index, encoder):
    path = index.folder / MANIFEST
    content = json.loads(path.read_text())
    content["model"]["path"] = "/elsewhere"
    path.write_text(json.dumps(content))
    assert len(Index.open(index.store, encoder)) == 40
    content["segments"][0]["count"] = 39
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="altered by hand"):
        Index.open(index.store, encoder)


def test_an_altered_reply_that_was_not_compared_is_noticed_when_it_is_read(index, encoder):
    path = segment(index) / "replies.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"reply number 17"', b'"reply number 17 '))
    opened = Index.open(index.store, encoder, verify=False)
    with pytest.raises(InputError, match=r"replies.jsonl: line 18 was altered"):
        opened.search([["reply number 17"]])


def test_an_index_in_8_bits_of_an_earlier_version_is_refused_and_replaced(index, encoder):
    path = index.folder / MANIFEST
    path.write_text(path.read_text().replace('"float32"', '"int8"'))
    (segment(index) / "codes.i8").write_bytes(b"")
    with pytest.raises(InputError, match=r"damaged \(.*'int8'.*\); build the index again"):
        Index.open(index.store, encoder)
    Index.build(encoder, ["new"], index.store, overwrite=True)


def test_search_needs_no_torch():
    """Which takes seconds to import, and which a server of an exported model does without."""
    code = "import sys, rejoinder.encoders.sentence, rejoinder.retrieval.index; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("queries", "told"), [
    (np.eye(3, dtype=np.float32), r"size 3; .* have 24"),
    (np.ones((1, 3, 5), np.float32), r"size 5; .* have 24"),
    (np.ones((1, 24), np.float32), "vector of context 0 has length 4.899, not 1"),
    (NOT_FINITE, "vectors of context 0 are not finite"),
    (ContextVectors(np.ones((2, 3, 24), np.float32), MISSING), "context 1 has no vector"),
])  # fmt: skip
def test_queries_that_cannot_be_used_are_refused(index, queries, told):
    with pytest.raises(InputError, match=told):
        index.search_vectors(queries)


def test_vectors_that_are_not_unit_vectors_are_refused():
    for row, told in (([np.nan, 0], "nan"), ([np.inf, 0], "inf"), ([3, 4], "5"), ([0.5, 0], "0.5")):
        with pytest.raises(InputError, match=f"reply 12 has length {told}, not 1"):
            check_rows(np.array([[1, 0], [0, 0], row], dtype=np.float32), "reply", 10)
    with pytest.raises(InputError, match=r"shape \(2, 3, 4\)"):
        check_rows(np.zeros((2, 3, 4), np.float32), "reply")


def test_an_engine_encodes_in_order_and_changes_nothing(tmp_path):
    encoder = small_model(tmp_path / "model")
    engine = Watched()
    replies = [f"reply number {number} of {number % 7}" for number in range(100)]
    here = Index.build(encoder, replies[:70], tmp_path / "here", batch=16)
    there = Index.build(encoder, replies[:70], tmp_path / "there", batch=16, engine=engine)
    here.add(replies[70:], batch=16)
    there.add(replies[70:], batch=16, engine=engine)
    assert there.fingerprint == here.fingerprint
    assert engine.done["encode_with"] == 7
    encoder.fingerprint = "0" * 64
    with pytest.raises(InputError, match="model is another model on a worker's machine"):
        Index.build(encoder, replies, tmp_path / "wrong", engine=Watched())


class HashPolyEncoder(HashEncoder):
    """One vector for each of the newest three messages; those that a context lacks are missing. No unit vectors."""

    unit_length = False

    def encode_responses(self, responses):
        lengths = np.array([2 + len(text) for text in responses], dtype=np.float32)
        return super().encode_responses(responses) * lengths[:, None]

    def encode_contexts(self, contexts):
        vectors = np.full((len(contexts), 3, self.size), np.nan, dtype=np.float32)
        present = np.zeros((len(contexts), 3), dtype=bool)
        for i, context in enumerate(contexts):
            newest = context[-3:]
            vectors[i, : len(newest)], present[i, : len(newest)] = self.encode_responses(newest), True
        return ContextVectors(vectors, present)

    def score(self, contexts, candidates):
        encoded = self.encode_contexts(contexts)
        vectors = [np.atleast_2d(encoded[i])[None] for i in range(len(contexts))]
        rows = [attended(self.encode_responses(texts), x)[0] for texts, x in zip(candidates, vectors, strict=True)]
        return np.stack(rows).astype(np.float32)


class DotEncoder(HashPolyEncoder):
    """One vector a context, of no unit length: a bi-encoder that does not normalise (POLY, section 4.2)."""

    def encode_contexts(self, contexts):
        return self.encode_responses([context[-1] for context in contexts])


def wanted(encoder, texts, context, k):
    [scores] = encoder.score([context], [texts])
    return [(texts[i], pytest.approx(scores[i], rel=1e-5)) for i in np.argsort(-scores, kind="stable")[:k]]


@pytest.mark.parametrize("kind", [HashPolyEncoder, DotEncoder])
def test_answers_are_those_of_the_model_also_after_adding_and_deleting(tmp_path, kind):
    encoder = kind()
    assert isinstance(encoder, DualEncoder)
    index = Index.build(encoder, REPLIES, tmp_path / "index", batch=7)
    for context, replies in zip(CONTEXTS, index.search(CONTEXTS, k=5), strict=True):
        assert [(reply.text, reply.score) for reply in replies] == wanted(encoder, REPLIES, context, 5)
    index.add(["reply 3 again", "one"])
    index.delete([3, 7, 40, 60])
    left = [text for i, text in enumerate(REPLIES) if i not in (3, 7, 40)] + ["one"]
    for opened in (index, Index.open(tmp_path / "index", encoder)):
        for context, replies in zip(CONTEXTS, opened.search(CONTEXTS, k=100), strict=True):
            assert [(reply.text, reply.score) for reply in replies] == wanted(encoder, left, context, 100)


@pytest.mark.parametrize(("call", "reason"), [
    (lambda index: index.search([["a"]], k=0), "k is 0; give a whole number, 1 or more"),
    (lambda index: index.search([["a"]], k=2.5), "k is 2.5"),
    (lambda index: index.search([["a"]], k="3"), "k is '3'"),
    (lambda index: index.search([["a"]], history="1"), "history is '1'"),
    (lambda index: index.search([["a"]], minimum_score="0.5"), "minimum_score is '0.5'; give a number"),
    (lambda index: index.search("a"), "a list of conversations"),
    (lambda index: index.search(None), "a list of conversations.*given: None"),
    (lambda index: index.notes("When?"), "a list of conversations.*given: 'When\\?'"),
    (lambda index: index.delete(1), "a list of positions; given: 1"),
    (lambda index: index.add([Candidate(None)]), "the text of a reply is None; give a text"),
    (lambda index: index.add([Candidate(["a", "b"])]), "the text of a reply is \\['a', 'b'\\]; give a text"),
    (lambda index: index.add([Candidate("a", title=5)]), "the title of 'a' is 5; give a text, '' for none"),
    (lambda index: index.add(DataFrame({"text": ["a"]})), "a table with the columns \\['text'\\] was given; give one column, such as df\\['text'\\]"),
    (lambda _: rejoinder.load("convert-small").encode_responses(DataFrame({"text": ["a"]})), "a table with the columns"),
    (lambda index: index.add("Hello!"), "a list of replies, .*given: 'Hello!'"),
    (lambda index: index.add([1]), "a reply is a text or a Candidate; given: 1"),
    (lambda index: index.add([Candidate("Hi.", examples="hello")]), "the examples of 'Hi.' are a list of questions, or of lists of messages; given: 'hello'"),
    (lambda index: index.add([Candidate("Hi.", examples=(5,))]), "or of lists of messages; given: 5"),
    (lambda index: index.add([Candidate("Hi.", examples=(("a", 5),))]), "or of lists of messages; given: \\('a', 5\\)"),
    (lambda index: index.add(["x"], batch=0), "batch is 0"),
    (lambda index: index.delete([0.5]), "a position is 0.5; give a whole number, 0 or more"),
    (lambda index: Index.open(index.store, "convert-small"), "a model that encodes replies, .*'convert-small'"),
    (lambda index: Index.build("convert-small", ["x"], index.store), "a model that encodes replies"),
])  # fmt: skip
def test_a_wrong_call_is_explained(index, call, reason):
    before = [candidate.text for _, candidate in index]
    with pytest.raises(InputError, match=reason):
        call(index)
    assert [candidate.text for _, candidate in Index.open(index.store)] == before


def test_texts_of_arrays_and_columns_are_read(encoder):
    texts = ["We open at nine.", "We close at five."]
    for column in (np.array(texts), (text for text in texts)):
        built = Index.build(encoder, column)
        built.add(np.array(["One more."]))
        assert [candidate.text for _, candidate in built] == [*texts, "One more."]
    built.add([Candidate(np.str_("a"), {"b": np.str_("c")}, np.str_("d"), np.array([["e", "f"]]))])
    assert built.candidate(3) == Candidate("a", {"b": "c"}, "d", (("e", "f"),))


def test_what_is_no_number_is_refused(tmp_path):
    class Diverged(HashPolyEncoder):
        def encode_responses(self, responses):
            return np.inf * super().encode_responses(responses)

    with pytest.raises(InputError, match=r"reply 0 has length .*diverged"):
        Index.build(Diverged(), REPLIES, tmp_path / "index")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("No space left on device")])
def test_an_interrupted_build_leaves_nothing_behind(tmp_path, encoder, error):
    def interrupted(_):
        if len(encoder.calls) == 2:
            raise error

    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else OSError):
        Index.build(encoder, TEXTS, tmp_path / "index", batch=10, progress=interrupted)
    assert list(tmp_path.iterdir()) == []


def test_an_index_that_exists_is_kept_unless_overwriting_is_asked_for(index, encoder):
    with pytest.raises(InputError, match=r"is an index already.*index add.*--overwrite"):
        Index.build(encoder, ["new"], index.store)
    assert len(Index.open(index.store, encoder)) == 40
    Index.build(encoder, ["new"], index.store, overwrite=True)
    assert [candidate.text for _, candidate in Index.open(index.store, encoder)] == ["new"]
