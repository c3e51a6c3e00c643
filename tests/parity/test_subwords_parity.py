"""Building and encoding subwords against a second implementation, written apart and in the plainest way."""

import unicodedata
import zlib
from collections import Counter, defaultdict

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rejoinder.text.vocabulary_building import build_subwords

START = "\ufe4f"
CORPUS = """\
Hello, how are you doing today? I'm doing well -- thanks for asking!
hello HELLO helper helping helped; the other others another mother.
In 1999 there were 12345678 people, 20,000 of them in 2000. Tel. 0049 123 123 123.
Ça va? Déjà vu, naïve café… “Quoted” and \u2018quoted\u2019. Straße, İstanbul.
日本語のテキスト。日本語です。 한국어 텍스트입니다. 中文\uff0c中文。
😀😀 👍🏽 :-) <3 ^_^ $5 + 10€ = ~15
odd\ufe4fmarks \ufe4f \ufe4f\ufe4f \ufe4f.\ufe4f \u00a0nbsp\ttab  two   three
the cat sat on the mat, the cat that sat on the other mat was the cat.
""".splitlines(keepends=True)


def is_separator(character):
    return unicodedata.category(character).startswith(("P", "Z"))


def split(text):
    lowered = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)
    result = []
    begin = 0
    for i in range(1, len(lowered) + 1):
        at_end = i == len(lowered)
        if at_end or is_separator(lowered[i]) != is_separator(lowered[i - 1]):
            token = lowered[begin:i]
            if token != " " or begin == 0 or at_end:
                result.append(START + token)
            begin = i
    return result if lowered else []


def segment(token, vocabulary):
    result = []
    while token:
        prefix = token
        while len(prefix) > 1 and prefix not in vocabulary:
            prefix = prefix[:-1]
        result.append(prefix)
        token = token[len(prefix) :]
    return result


def allowed(substring, max_bytes, max_digits):
    run = longest = 0
    for character in substring:
        run = run + 1 if unicodedata.category(character) == "Nd" else 0
        longest = max(longest, run)
    return len(substring) == 1 or (len(substring.encode()) <= max_bytes and longest <= max_digits)


def build(texts, minimum, iterations, max_bytes, max_digits):
    words = Counter(token for text in texts for token in split(text))
    alphabet = {character for word in words for character in word}
    vocabulary = set(alphabet)
    counts = {}
    for _ in range(iterations):
        counts = defaultdict(int)
        for word, occurrences in words.items():
            begin = 0
            for piece in segment(word, vocabulary):
                for end in range(begin + 1, len(word) + 1):
                    counts[word[begin:end]] += occurrences
                begin += len(piece)
        vocabulary = set(alphabet)
        for candidate in sorted(counts, key=len, reverse=True):
            if (
                len(candidate) > 1
                and counts[candidate] >= minimum
                and allowed(candidate, max_bytes, max_digits)
            ):
                vocabulary.add(candidate)
                for end in range(1, len(candidate)):
                    counts[candidate[:end]] -= counts[candidate]
    return sorted(vocabulary, key=lambda subword: (-counts.get(subword, 0), subword))


def encode(text, vocabulary):
    known = set(vocabulary.subwords)
    ids = []
    for token in split(text):
        for piece in segment(token, known):
            if piece in known:
                ids.append(vocabulary.subwords.index(piece))
            else:
                ids.append(vocabulary.size + zlib.crc32(piece.encode()) % vocabulary.buckets)
    return ids


@settings(max_examples=150)
@given(
    st.lists(
        st.text(st.sampled_from("aaaabbc1123 ..\ufe4fé日\n"), max_size=40), min_size=1, max_size=8
    ).filter(any),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(3, 12),
    st.integers(1, 3),
)
@example(CORPUS, 1, 4, 20, 4)
@example(CORPUS, 2, 1, 20, 4)
@example(CORPUS, 3, 2, 20, 1)
@example(CORPUS, 5, 4, 6, 2)
@example(CORPUS, 8, 7, 60, 99)
def test_same_vocabulary_and_same_ids(texts, minimum, iterations, max_bytes, max_digits):
    built = build_subwords(
        texts,
        minimum_count=minimum,
        iterations=iterations,
        max_bytes=max_bytes,
        max_digits=max_digits,
    )
    assert list(built.subwords) == build(texts, minimum, iterations, max_bytes, max_digits)
    for text in [*texts, "unseen: Жизнь, ©, 漢字, tha 199999 ", " ", ""]:
        assert built.encode(text) == encode(text, built)
