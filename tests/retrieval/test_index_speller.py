"""The speller of an index: after any changes, that of its replies; made from what has changed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval import index_speller
from rejoinder.retrieval.index import Index
from rejoinder.stores.segments import Segment
from rejoinder.text.words.own_words import count_words
from rejoinder.text.words.spelling import Speller
from tests.retrieval.conftest import HashEncoder

WORDS = ["lamp", "order", "refund", "zyrkonia", "parcel", "Bestellung", "it's", "x"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
learned = st.just(()) | st.tuples(st.tuples(texts))
replies = st.builds(Candidate, texts, title=texts | st.just(""), learned=learned)
changes = st.lists(
    st.tuples(st.just("add"), st.lists(replies, max_size=4))
    | st.tuples(st.just("delete"), st.lists(st.integers(0, 12), max_size=4, unique=True))
    | st.tuples(st.just("edit"), st.lists(replies, min_size=1, max_size=1))
    | st.tuples(st.sampled_from(["compact", "reopen", "refresh", "rebuild"]), st.just([])),
    max_size=8,
)


def state(speller):
    return speller.own.counts, speller.own._english, set(speller.own.learned)


def anew(index):
    """The speller of the replies that an index has, made of all of them."""
    every = [text for _, reply in index for text in (reply.text, reply.title)]
    messages = [text for _, reply in index for conversation in reply.learned for text in conversation]
    return (*state(Speller(every))[:2], set(count_words(messages)))


@settings(max_examples=60)
@given(st.lists(replies, max_size=5), changes)
def test_after_any_changes_it_is_that_of_the_replies(tmp_path_factory, start, steps):
    folder, encoder = tmp_path_factory.mktemp("law") / "index", HashEncoder()
    index = Index.build(encoder, start, folder)
    reader = Index.open(folder, encoder)
    for kind, values in steps:
        left = [position for position, _ in index]
        if kind == "add":
            index.add(values)
        elif kind == "delete":
            index.delete([position for position in values if position in left])
        elif kind == "edit" and left:
            index.edit({left[-1]: values[0]})
        elif kind == "compact":
            index.compact()
        elif kind == "reopen":
            index = Index.open(folder, encoder)
        elif kind == "rebuild":
            index = Index.build(encoder, start[::-1], folder, overwrite=True)
        else:
            reader.refresh()
            assert state(reader._make_speller()) == anew(reader)
        assert state(index._make_speller()) == anew(index)


def test_a_change_reads_new_replies_alone(tmp_path, monkeypatch):
    index = Index.build(HashEncoder(), [f"lamp {number}" for number in range(50)], tmp_path / "index")
    speller = index._make_speller()
    read = []
    candidates = Segment.candidates

    def counted(self, rows):
        read.extend(rows)
        return candidates(self, rows)

    monkeypatch.setattr(Segment, "candidates", counted)
    index.add(["zyrkonia"])
    index.delete([7])
    read.clear()
    changed = index._make_speller()
    assert sorted(read) == [0, 7]
    assert index._make_speller() is changed is not speller
    assert changed.correct("a zyrkonai lamp")[0] == "a zyrkonia lamp"


def test_words_of_customers_are_known_and_told_to_nobody(tmp_path):
    asked = (("where is the wheelchair for featherstonehaugh",),)
    replies = [Candidate("Your zyrkonia is on its way.", learned=asked), Candidate("We open at nine.")]
    speller = Index.build(HashEncoder(), replies, tmp_path / "index")._make_speller()
    text = "please send the zyrkonai to featherstonehagh"
    assert speller.correct(text)[0] == "please send the zyrkonia to featherstonehagh"
    assert speller.own.is_known("featherstonehaugh")
    assert not speller.own.is_known("kowalczykowa")


def test_a_large_index_has_english_words_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(index_speller, "MAX_OWN_REPLIES", 2)
    index = Index.build(HashEncoder(), ["a zyrkonia", "a lamp"], tmp_path / "index")
    assert index._make_speller().correct("a zyrkonai lamp")[0] == "a zyrkonia lamp"
    index.add(["a chair"])
    assert state(index._make_speller()) == state(Speller())
    index.delete([2])
    assert state(index._make_speller()) == anew(index)
