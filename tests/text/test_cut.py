"""Messages that are too long: what of them is read."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rejoinder
from rejoinder.encoders.persistence import save
from rejoinder.errors import InputError
from rejoinder.text.ngrams import build_ngrams
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.text.pretrained import MarkedPretrained, Pretrained, build_bpe
from rejoinder.text.tokenizer import LONGEST_TOKEN, encode_messages, too_long
from tests.encoders.conftest import convert

LETTERS = [MARK, *"abcdefghijklmnopqrstuvwxyz"]
CUT_END, CUT_MIDDLE = Subwords(LETTERS, buckets=8), Subwords(LETTERS, buckets=8, cut="middle")


@given(st.lists(st.text("ab c", max_size=40), max_size=5), st.integers(1, 12))
def test_the_middle_goes_and_both_ends_stay_or_the_end_goes(texts, length):
    wholes, tail = [CUT_END.encode(text) for text in texts], length // 2
    cut = [
        each if len(each) <= length else each[: length - tail] + each[len(each) - tail :]
        for each in wholes
    ]
    for tokenizer, wanted in ((CUT_MIDDLE, cut), (CUT_END, [each[:length] for each in wholes])):
        ids, lengths = encode_messages(tokenizer, texts, length)
        assert ids.tolist() == [each for text in wanted for each in text]
        assert lengths.tolist() == [len(text) for text in wanted]


@given(st.lists(st.text("ab c", max_size=40), max_size=5), st.integers(1, 12))
def test_what_is_cut_is_known_exactly(texts, length):
    words = build_ngrams(["a ab b c"] * 2, minimum_count=1, bigrams=2, buckets=4)
    for tokenizer, tokens in (
        (CUT_END, CUT_END.encode),
        (CUT_MIDDLE, CUT_END.encode),
        (words, lambda text: words.encode(text)[::2]),
    ):
        found = too_long(tokenizer, texts, encode_messages(tokenizer, texts, length)[1], length)
        assert found == [text for text in texts if len(tokens(text)) > length]


def test_of_an_endless_message_the_ends_are_read():
    long = "ab " * LONGEST_TOKEN * 1000 + "z"
    ids, _ = encode_messages(CUT_MIDDLE, [long], 4)
    assert ids.tolist() == [*CUT_END.encode("a")[:2], *CUT_END.encode("z")]


def test_marks_of_both_ends_stay():
    bpe = build_bpe(["a few words of a text, and some more"], merges=10, minimum_count=1)
    marked = MarkedPretrained(bpe.description, bpe.special, bpe.rows, "middle")
    ids, lengths = encode_messages(marked, ["some words of a text and more of a text"], 6)
    assert (ids[0], ids[-1], lengths.tolist()) == (marked.start_id, marked.end_id, [6])


@pytest.mark.parametrize(
    "make",
    [
        lambda cut: Subwords(LETTERS, 8, cut),
        lambda cut: (lambda bpe: Pretrained(bpe.description, bpe.special, bpe.rows, cut))(
            build_bpe(["a text"], 2, 1)
        ),
    ],
)
def test_the_cut_is_part_of_a_vocabulary(make, tmp_path):
    for cut in ("end", "middle"):
        made = make(cut)
        made.save(tmp_path / cut)
        for again in (type(made).load(tmp_path / cut), pickle.loads(pickle.dumps(made))):
            assert (again.cut, again.fingerprint) == (cut, made.fingerprint)
    assert make("end").fingerprint != make("middle").fingerprint
    assert "cut" not in (tmp_path / "end").read_text()
    (tmp_path / "end").write_text((tmp_path / "middle").read_text().replace("middle", "start"))
    with pytest.raises(InputError, match="'cut' must be one of end, middle, not 'start'"):
        type(made).load(tmp_path / "end")


def test_mails_that_differ_at_the_end_differ(tmp_path):
    greeting = "good morning to all of you and i hope that you are well " * 8
    mails = [greeting + "i want a refund", greeting + "i forgot my password"]
    cosines = {}
    for tokenizer in (CUT_END, CUT_MIDDLE):
        save(tmp_path / tokenizer.cut, convert(tokenizer.rows), tokenizer, max_length=60, card="")
        one, other = rejoinder.load(tmp_path / tokenizer.cut).encode_responses(mails)
        cosines[tokenizer.cut] = float(one @ other)
    assert cosines["end"] == pytest.approx(1, abs=1e-6)
    assert cosines["middle"] < 0.99
