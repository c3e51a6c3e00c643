"""Changes of some replies of a large index: as found and filtered as if all were encoded anew, at the cost of a few."""

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.retrieval import index as index_module
from rejoinder.retrieval.encoding.batches import read_as
from rejoinder.retrieval.encoding.scoring import read_head
from rejoinder.retrieval.encoding.views import encode_views
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE
from rejoinder.stores import ann, writing
from rejoinder.stores.folder.store import MANIFEST
from rejoinder.stores.manifest import SegmentRecord
from rejoinder.stores.runs import read_runs, runs_of, without_positions, write_gaps, write_runs
from rejoinder.stores.scan import exact_scores
from tests.retrieval.conftest import HashEncoder
from tests.retrieval.test_changes import STEPS, A, B, CrashError, answers, brute_force, of
from tests.retrieval.test_examples import WordEncoder, faq
from tests.stores import segments_of

MESSAGES = [["when do you open"], ["my parcel"], ["send it back please"], ["zebra password"], ["unknown"]]
TEXTS = [
    "We open at ten.", "Your parcel is late.", "Returns are free.", "A zebra. It is striped.", "Reset your password here.",
]  # fmt: skip
TITLES = ["", "parcel", "zebra", "opening"]
EXAMPLES = [("when do you open",), ("send it back",), ("my zebra", "is late"), ("i forgot it",)]
numbers = st.lists(st.integers(0, 30), max_size=4, unique=True)
replies_of_words = st.builds(
    lambda text, title, examples, learned, kind: Candidate(text, {"kind": kind}, title, tuple(examples), tuple(learned)),
    st.sampled_from(TEXTS),
    st.sampled_from(TITLES),
    st.lists(st.sampled_from(EXAMPLES[:2]), max_size=2, unique=True),
    st.lists(st.sampled_from(EXAMPLES[2:]), max_size=1),
    st.sampled_from("ab"),
)


def steps_of(replies):
    """Sequences of changes; `change` is of some replies, of deleted ones and of those to delete."""
    return st.lists(
        st.tuples(st.just("add"), st.lists(replies, max_size=5))
        | st.tuples(st.just("change"), st.tuples(st.dictionaries(st.integers(0, 30), replies, max_size=4), numbers))
        | st.tuples(st.just("delete"), numbers)
        | st.tuples(st.just("restore"), st.lists(replies, min_size=1, max_size=2))
        | st.tuples(st.sampled_from(["compact", "reopen", "refresh", "approximate"]), st.just(None)),
        min_size=3,
        max_size=12,
    )


@pytest.fixture(autouse=True, scope="module")
def _always_large():
    """Every index keeps its head when a reply changes; FAISS is asked however few there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "MOST_FITTED", 0)
        patch.setattr(ann, "cost", lambda *_: 0.0)
        yield


def carry_out(index, left, step, values):
    """Change an index; return it, and what it has now, by position."""
    if step == "add":
        end = index.manifest.end
        assert index.add(values, batch=3) == range(end, end + len(values))
        return index, left | dict(enumerate(values, end))
    end = max(1, index.manifest.end)  # most numbers are then positions that there are, or were
    if step == "change":
        given = {at % end: reply for at, reply in values[0].items() if at < 4 * end}
        changed = {at: reply for at, reply in given.items() if at in left}
        back = {at: reply for at, reply in given.items() if at < index.manifest.end and at not in left}
        gone = sorted({at % end for at in values[1]} & {*left} - {*changed})
        index.edit(changed, gone, back)
        return index, {at: reply for at, reply in (left | changed | back).items() if at not in gone}
    if step == "restore":  # those that went first
        back = dict(zip(read_runs(index.manifest.gone).tolist(), values, strict=False))
        index.edit({}, restored=back)
        return index, left | back
    if step == "delete":
        gone = sorted({at % end for at in values} & {*left})
        index.delete(gone)
        return index, {at: reply for at, reply in left.items() if at not in gone}
    if step == "compact":
        index.compact(batch=4)
        assert len(segments_of(index)) <= 1
    elif step == "reopen":
        index = Index.open(index.store, index.encoder, verify=True)
    elif step == "approximate" and len(left) > 1:
        index.approximate(0.9, MESSAGES * 3)
    return index, left


def check_contents(index, left):
    """Compare what an index lists with what it should have."""
    assert [*index] == sorted(left.items())
    assert len(index) == len(left) == index.count()
    assert [*index.candidates(7)] == [pair for pair in sorted(left.items()) if pair[0] >= 7]
    gone = read_runs(index.manifest.gone).tolist()
    assert gone == [at for at in range(index.manifest.end) if at not in left]
    for at, reply in left.items():
        assert index.candidate(at) == index.candidate(at, deleted=True) == reply
    for at in gone:
        with pytest.raises(InputError, match="deleted before"):
            index.candidate(at)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(A), max_size=6), steps_of(st.sampled_from([*A, *B]).map(of)))
def test_texts_that_change_are_found_as_if_all_were_written_anew(tmp_path_factory, start, steps):
    """To the last bit, equal scores by position; a reader that did not refresh sees what was there before."""
    folder, encoder = tmp_path_factory.mktemp("texts") / "index", HashEncoder()
    index = Index.build(encoder, map(of, start), folder)
    left = dict(enumerate(map(of, start)))
    reader, seen = Index.open(folder, encoder), left

    def expected(state, kind=""):
        chosen = {at: each.text for at, each in sorted(state.items()) if kind in each.text}
        return [best[:5] for best in brute_force(encoder, chosen)]

    for step, values in steps:
        index, left = carry_out(index, left, step, values)
        if step == "refresh":
            reader.refresh()
            seen = left
        assert answers(index, 5) == expected(left)
        assert answers(reader, 5) == expected(seen)
        assert reader.snapshot().count() == len(seen)
    for opened in (index, Index.open(folder, encoder, verify=True)):
        check_contents(opened, left)
        assert answers(opened, 5) == expected(left)
        for kind in "ab" if {each.text[0] for each in left.values()} == {"a", "b"} else "":
            assert answers(opened, 5, where={"kind": kind}) == expected(left, kind)
            assert answers(opened, 5, where=lambda each, kind=kind: each.text[0] == kind) == expected(left, kind)
    texts = {at: [each.text for each in opened.search([[reply.text]], 1, hybrid=5.0)[0]] for at, reply in left.items()}
    assert texts == {at: [reply.text] for at, reply in left.items()}


@settings(max_examples=25)
@given(steps_of(replies_of_words))
def test_titles_and_examples_that_change_count_as_if_all_were_encoded_anew(tmp_path_factory, steps):
    """By the head as it was fitted; how far the regression moved a reply then stays, as long as the files hold it."""
    folder, encoder = tmp_path_factory.mktemp("head") / "index", WordEncoder()
    index = Index.build(encoder, faq(), folder)
    record = index.manifest.head
    head = read_head(index.store, record)
    left = dict(enumerate(faq()))
    moves = dict(enumerate(index.vectors([*left]) - start_of(encoder, head, left)[1]))
    assert min(np.linalg.norm(move) for move in moves.values()) > 0.1
    for step, values in steps:
        index, left = carry_out(index, left, step, values)
        if step == "compact":
            moves = {at: move for at, move in moves.items() if at in left}
    for opened in (index, Index.open(folder, encoder, verify=True)):
        check_contents(opened, left)
        assert opened.manifest.head == record
        check_scores(opened, head, moves, left)
        kept = {at: reply for at, reply in left.items() if reply.payload.get("kind") == "b"}
        if kept:
            check_scores(opened, head, moves, kept, where={"kind": ["b"]})


def start_of(encoder, head, left):
    """Return encodings of replies, and their vectors if no regression moves them."""
    replies = read_as([left[at] for at in sorted(left)], plain=True)
    responses = encoder.encode_responses([reply.text for reply in replies])
    return responses, head.vectors(head.discriminants(encode_views(encoder, replies), len(replies)), responses)


def check_scores(index, head, moves, left, **options):
    """Compare what is found with the replies encoded anew by the same head."""
    if not left:
        assert index.search(MESSAGES, 5, ANY_SCORE) == [[]] * len(MESSAGES)
        return
    positions = sorted(left)
    responses, vectors = start_of(index.encoder, head, left)
    vectors = vectors + np.stack([moves.get(at, np.zeros(vectors.shape[1])) for at in positions])
    np.testing.assert_allclose(index.vectors(positions), vectors, atol=1e-5)
    np.testing.assert_allclose(index.vectors(positions, of_texts=True), responses, atol=1e-6)
    queries = index.encode_contexts(MESSAGES)
    for query, found in zip(queries, index.search(MESSAGES, 5, ANY_SCORE, distinct=False, **options), strict=True):
        scores = dict(zip(positions, exact_scores(query, vectors), strict=True))
        best = sorted(scores.values(), reverse=True)[:5]
        np.testing.assert_allclose([reply.score for reply in found], best, atol=1e-5)
        np.testing.assert_allclose([scores[reply.position] for reply in found], best, atol=1e-5)
        assert [(each.text, each.learned) for each in found] == [
            (left[each.position].text, left[each.position].learned) for each in found
        ]


@pytest.fixture
def index(tmp_path):
    return Index.build(WordEncoder(), faq(), tmp_path / "index")


def test_edits_one_by_one_leave_few_segments_and_copy_little(tmp_path, encoder, monkeypatch):
    index, written = Index.build(encoder, [f"reply {i}" for i in range(400)], tmp_path / "index"), []
    kind = writing.SegmentRecord
    monkeypatch.setattr(writing, "SegmentRecord", lambda *args: written.append(args[2]) or kind(*args))
    order = random.Random(3).sample(range(400), 200)
    for number, at in enumerate(order, 1):
        index.edit({at: Candidate(f"edited {at}")})
        assert len(segments_of(index)) == len(index.manifest.segments) <= 2 + number.bit_length()
    assert sum(written) <= 200 * 9
    assert sum(record.count for record in index.manifest.segments) == 600
    for _ in range(100):  # again and again the same two
        index.edit({order[0]: Candidate("one"), order[1]: Candidate("two")})
    assert sum(record.count for record in index.manifest.segments) <= 604, "superseded rows are not copied"
    assert index.compact() == sum(record.count for record in index.manifest.segments[1:]) or len(index) == 400
    assert [reply.text for at, reply in index if at in order[:3]] == [
        {order[0]: "one", order[1]: "two"}.get(at, f"edited {at}") for at in sorted(order[:3])
    ]


def test_an_edit_writes_no_more_where_there_are_more_replies(tmp_path, encoder):
    wrote = {}
    for count in (2_000, 20_000):
        index = Index.build(encoder, [f"reply {i}" for i in range(count)], tmp_path / str(count))
        before = {record.name for record in index.manifest.segments}
        encoder.calls.clear()
        index.edit({1_500: Candidate("another text")})
        assert encoder.calls == [1], "nothing but the change is encoded"
        new = [record for record in index.manifest.segments if record.name not in before]
        wrote[count] = sum(record.bytes for record in new) + len(index.manifest.to_json())
    assert wrote[20_000] <= wrote[2_000] + 100


def test_a_small_index_is_fitted_again_by_an_edit(index, monkeypatch):
    monkeypatch.setattr(index_module, "MOST_FITTED", 4)
    head = index.manifest.head
    index.edit({0: Candidate("We open at noon.", title="noon")})
    assert index.manifest.head.file != head.file
    assert [record.revises for record in index.manifest.segments] == [False]
    monkeypatch.setattr(index_module, "MOST_FITTED", 3)
    head = index.manifest.head
    index.edit({0: Candidate("We open at one.", title="one")})
    assert index.manifest.head == head
    assert [record.revises for record in index.manifest.segments] == [False, True]
    index.fit({1: Candidate("It comes tomorrow.", title="tomorrow")})
    assert index.manifest.head.file != head.file
    assert [record.revises for record in index.manifest.segments] == [False]
    assert [reply.text for _, reply in index][:2] == ["We open at one.", "It comes tomorrow."]


def test_the_first_examples_of_an_index_give_it_a_head(tmp_path):
    index = Index.build(WordEncoder(), ["We are here.", "Your zebra stands outside."], tmp_path / "index")
    assert index.manifest.head is None
    index.edit({0: Candidate("We are there.")})
    assert index.manifest.head is None
    index.edit({1: Candidate("Your zebra stands outside.", title="my animal")})
    assert index.manifest.head is not None
    assert index.search([["my animal"]], 1, ANY_SCORE)[0][0].position == 1


def test_a_model_of_several_vectors_has_no_head_by_an_edit(tmp_path):
    class Several(WordEncoder):
        def encode_contexts(self, contexts):
            return ContextVectors(super().encode_contexts(contexts)[:, None].repeat(2, axis=1))

    index = Index.build(Several(), ["one", "two"], tmp_path / "index")
    index.edit({1: Candidate("a zebra", title="animal")})
    assert index.manifest.head is None
    assert dict(Index.open(index.store, Several(), verify=True))[1] == Candidate("a zebra", title="animal")


def test_a_reply_comes_back_to_a_position_without_a_row(index):
    old = dict(index)
    index.delete([1, 2])
    index.compact()
    index.edit({}, restored={2: old[2]})
    assert [at for at, _ in index] == [0, 2, 3]
    assert index.manifest.gone == "1"
    index.delete([2])
    assert (index.manifest.gone, index.manifest.deleted) == ("1-2", "2")
    assert index.candidate(2, deleted=True) == old[2]
    with pytest.raises(InputError, match="deleted before"):
        index.candidate(1, deleted=True)
    index.edit({0: old[3]}, restored={1: old[1], 2: old[2]})
    index.compact()
    assert [reply for _, reply in index] == [old[3], old[1], old[2], old[3]]
    assert index.manifest.gone == ""


def test_earlier_editions_are_listed_as_gone_until_the_index_is_compacted(index):
    old = dict(index)
    index.edit({1: Candidate("first edition")})
    index.edit({1: Candidate("second edition"), 3: Candidate("new")})
    index.delete([0])
    gone = [*index.candidates(deleted=True)]
    assert gone == [(0, old[0]), (1, old[1]), (3, old[3])]
    assert index.compact() == 3
    assert [*index.candidates(deleted=True)] == []
    assert [reply.text for _, reply in index] == ["second edition", old[2].text, "new"]


@pytest.mark.folder
def test_revisions_are_a_format_of_their_own_until_the_index_is_compacted(index):
    path = index.folder / MANIFEST
    before = json.loads(path.read_text())
    index.edit({1: Candidate("other")})
    content = json.loads(path.read_text())
    assert (before["format"], content["format"]) == (4, 7)
    assert [record.get("revises") for record in content["segments"]] == [None, True]
    index.compact()
    after = json.loads(path.read_text())
    assert after["format"] == 4
    assert set(after) - set(before) == {"same_as"}
    assert set(after["segments"][0]) == set(before["segments"][0])


@pytest.mark.folder
@pytest.mark.parametrize(
    ("altered", "told"),
    [
        ({"revises": "yes"}, r"is damaged \(ValidationError"),
        ({"revises": False}, r"is damaged \(ValueError: .*does not go on"),
        ({"first": 4}, r"is damaged \(ValueError: .*revises replies from 4 on, which never were"),
        ({"count": 9}, r"is damaged \(ValueError: .*revises replies from 4 on, which never were"),
        ({"holes": "0-9"}, r"is damaged \(ValueError: .*holes beyond its end"),
        ({"first": 0}, "was altered by hand or damaged"),
    ],
)
def test_a_damaged_revision_is_refused(index, altered, told):
    index.edit({1: Candidate("other")})
    path = index.folder / MANIFEST
    content = json.loads(path.read_text())
    content["segments"][1] |= altered
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=told):
        Index.open(index.store, index.encoder)


@pytest.mark.folder
def test_a_damaged_revision_is_not_copied(index):
    index.edit({1: Candidate("other")})
    path = index.folder / index.manifest.segments[1].name / "replies.jsonl"
    path.write_bytes(path.read_bytes().replace(b"other", b"ether"))
    for change in (lambda: index.edit({2: Candidate("more")}), index.compact):
        with pytest.raises(InputError, match=r"replies\.jsonl was altered"):
            change()


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=pytest.mark.folder if "in place" in step else ()) for step in STEPS]
)
def test_a_crash_between_the_steps_of_an_edit_leaves_the_old_index_valid(tmp_path, encoder, step):
    index = Index.build(encoder, map(of, A), tmp_path / "index")
    index.edit({3: of("b0")}, [5])
    before = answers(index)
    with pytest.MonkeyPatch.context() as patch:
        STEPS[step](patch)
        with pytest.raises(CrashError):
            index.edit({1: of("b1")}, [2], {5: of("b2")})
    opened = Index.open(index.store, encoder, verify=True)
    assert answers(index) == answers(opened) == before
    opened.edit({1: of("b1")}, [2], {5: of("b2")})  # what the crash left is in nobody's way
    left = dict(enumerate(A)) | {3: "b0", 1: "b1", 5: "b2"}
    del left[2]
    assert answers(Index.open(index.store, encoder, verify=True)) == brute_force(encoder, dict(sorted(left.items())))
    assert len(segments_of(opened)) == 2


def test_a_reader_refreshes_by_opening_the_revision_alone(tmp_path, encoder, monkeypatch):
    index = Index.build(encoder, map(of, A), tmp_path / "index")
    reader, opened, kind = Index.open(index.store, encoder), [], type(index.store)
    real = kind.open_segment
    monkeypatch.setattr(kind, "open_segment", lambda *given, **more: opened.append(given[2]) or real(*given, **more))
    index.edit({3: of("b0")})
    opened.clear()
    assert (reader.refresh(), opened) == (True, [1])
    assert answers(reader) == answers(index)


@pytest.mark.folder
@pytest.mark.parametrize("method", ["hnsw", "ivf", "scan"])
def test_an_approximate_search_goes_on_after_an_edit(tmp_path, method):
    pytest.importorskip("faiss")
    encoder = HashEncoder()
    index = Index.build(encoder, [of(f"a{i}") for i in range(300)], tmp_path / "index")
    index.approximate(0.9, [[f"a{i}"] for i in range(40)], method=method)
    record = index.manifest.approximate
    for at in range(20):
        index.edit({at: of(f"b{at}")})
    index.add([of("b20")])
    index.edit({300: of("b300"), 3: of("b33")}, [4])
    for opened in (index, Index.open(index.store, encoder, verify=True)):
        assert opened.manifest.approximate == record
        best = [opened.search([[text]], 1)[0][0] for text in ("b7", "b33", "b300", "a150")]
        assert [(reply.position, reply.text) for reply in best] == [(7, "b7"), (3, "b33"), (300, "b300"), (150, "a150")]
        found = opened.search([[f"a{i}"] for i in range(20)], 5)
        assert not {reply.text for replies in found for reply in replies} & {f"a{i}" for i in range(20)}
    index.approximate(0.9, [[f"a{i}"] for i in range(40)], method=method)  # of revisions too
    index.add([of("c0")])
    index.edit({7: of("b77")})
    best = [index.search([[text]], 1)[0][0] for text in ("b6", "b77", "c0")]
    assert [(reply.position, reply.text) for reply in best] == [(6, "b6"), (7, "b77"), (301, "c0")]


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_runs_without_positions(inside, taken):
    text = write_runs(np.array(sorted(inside), dtype=np.int64))
    left = without_positions(text, np.array(sorted(taken), dtype=np.int64))
    assert left == write_runs(np.array(sorted(inside - taken), dtype=np.int64))


@given(st.sets(st.integers(0, 40), min_size=1))
def test_gaps_and_the_positions_between_them(chosen):
    positions = np.array(sorted(chosen), dtype=np.int64)
    gaps = write_gaps(positions)
    runs_of(gaps)
    record = SegmentRecord("x", int(positions[0]), len(positions), {}, 1.0, gaps, 0, True)
    assert record.positions.tolist() == sorted(chosen)
    assert record.end == positions[-1] + 1
