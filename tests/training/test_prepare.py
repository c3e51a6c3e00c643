"""Vocabulary and token stores: made once, whole or absent, equal where texts are equal, and never a stale one."""

import json
import pickle
import shutil
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rejoinder
from rejoinder.corpora import parquet as tables
from rejoinder.corpora.pipeline.build import build_data
from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import pieces_of, write_examples
from rejoinder.corpora.lines import Reading
from rejoinder.engine import LocalEngine
from rejoinder.errors import InputError
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.text.dialogue import Dialogue
from rejoinder.text.history import HistoryText
from rejoinder.text.vocabulary_building import build_subwords
from rejoinder.training.preparation import inputs as prepare_module
from rejoinder.training.display import Display
from rejoinder.training.loop import train
from rejoinder.training.preparation.inputs import prepare
from rejoinder.training.preparation.word_vectors import word_vectors
from rejoinder.training.data.tokenising import Encode, build_store
from rejoinder.training.data.tokens import open_store, token_hashes
from tests.encoders.tiny_transformer import SHAPE
from tests.training.tiny import MODEL, NGRAM, NGRAM_WORDS, recipe, stage

WORDS = Subwords([MARK, MARK + "yes", MARK + "no", "ing", MARK + "the"], buckets=3)
SIZE = 3
TOKENIZER = build_subwords(
    ["hello there", "how are you", "fine thanks", "at noon"], minimum_count=1
)
texts = st.lists(st.integers(0, 5), max_size=5)


class Notes(Display):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def made(examples, folder, **sections):
    return prepare(recipe(examples, **sections), folder)


NO_PANDAS = """
import sys
from pathlib import Path

class Refused:
    def find_spec(self, name, path=None, target=None):
        assert name != "pandas", "tokenising imports pandas"

sys.meta_path.insert(0, Refused())
from rejoinder.text.history import HistoryText
from rejoinder.text.vocabulary_building import build_subwords
from rejoinder.training.data.examples import read_texts
from rejoinder.training.data.tokenising import Encode, build_store

data, store = sys.argv[1:]
[texts] = read_texts(data, "train")
encode = Encode(build_subwords(texts[0] * 2, minimum_count=1), 8, HistoryText(2, apart=True))
print(len(build_store(Path(store), data, "train", encode)))
"""


def test_tokenising_does_not_wait_for_pandas(tmp_path):
    """pyarrow imports it where it is installed, as soon as an array becomes NumPy's: a second a process."""
    examples = [Example((f"hello {at}", "how are you"), "fine thanks") for at in range(5)]
    write_examples(examples, tmp_path / "data/train-00000.parquet")
    words = [sys.executable, "-c", NO_PANDAS, tmp_path / "data", tmp_path / "store"]

    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.stdout == "5\n", done.stderr


def test_a_model_that_reads_more_than_the_data_holds_is_told(tmp_path):
    (tmp_path / "chats.jsonl").write_text(
        json.dumps({"turns": [f"turn {number}" for number in range(9)]}) + "\n"
    )
    single, three = dict(MODEL), {**MODEL, "history": 3}
    whole = {"kind": "masked-lm", **SHAPE}
    for history, told in ((2, (three, whole)), (3, (whole,)), (None, ())):
        place = tmp_path / f"data-{history}"
        build_data(
            "jsonl", [f"train={tmp_path / 'chats.jsonl'}"], place, reading=Reading(history=history)
        )
        for model in (single, three, whole):
            display = Notes()
            kind = "bpe" if model is whole else "subwords"
            vocabulary = {"kind": kind} | (
                {"merges": 9} if model is whole else {"minimum_count": 1}
            )
            sections = {"model": model, "vocabulary": vocabulary, "validation": {"examples": 0}}
            prepare(recipe(place, **sections), tmp_path / "tokens", display)
            lost = [note for note in display.notes if "contexts lost their oldest messages" in note]
            assert len(lost) == (model in told), (history, model)
            assert all(f"(--history {history})" in note and str(place) in note for note in lost)


def test_another_length_or_vocabulary_makes_another_store(tmp_path, data):
    whole = made(data, tmp_path)
    short = made(data, tmp_path, text={"max_length": 2})
    other = made(data, tmp_path, vocabulary={"minimum_count": 40})
    assert max(short.train.input.gather(np.arange(320))[1]) == 2
    assert short.tokenizer.fingerprint == whole.tokenizer.fingerprint != other.tokenizer.fingerprint
    texts = [
        each.tokenizer.decode(each.train.input.gather(np.arange(1))[0].tolist())
        for each in (other, whole)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"text": {"max_length": 9}},
            "9 subwords that the model reads; of longer ones the end is cut",
        ),
        (
            {"text": {"max_length": 9, "cut": "middle"}},
            "9 subwords that the model reads; of longer ones the middle is cut",
        ),
        (
            {"text": {"max_length": 9}, "vocabulary": NGRAM_WORDS, "model": NGRAM},
            "9 words that the model reads",
        ),
        ({"text": {"max_length": 400}}, None),
    ],
)
def test_messages_that_are_cut_are_counted(tmp_path, sections, said):
    for split in ("train", "valid"):
        pairs = [
            Example((f"abcd {number}",), "abcd " * (30 if number % 2 else 1))
            for number in range(39)
        ]
        write_examples(
            [*pairs, Example(("abcd " * 50,), "abcd " * 50)], tmp_path / f"{split}-0.parquet"
        )
    display = Notes()
    prepare(recipe(tmp_path, **sections), tmp_path / "tokens", display)
    told = [note for note in display.notes if "fill" in note]
    assert len(told) == (said is not None)
    assert said is None or f"21 of 80 messages and replies fill the {said}" in told[0]


def test_a_shared_cache_is_filled_once(tmp_path, data, monkeypatch):
    cached = {"data": {"train": str(data), "cache": str(tmp_path / "cache")}}
    first = made(data, tmp_path / "run", **cached)
    assert not (tmp_path / "run").exists()
    names = sorted(
        path.name.partition("-")[0] + path.suffix for path in (tmp_path / "cache").iterdir()
    )
    assert names == ["train", "valid", "vocabulary.json"]
    monkeypatch.setattr(prepare_module, "build_store", None)
    monkeypatch.setattr(prepare_module, "build_vocabulary", None)
    again = made(data, tmp_path / "run", **cached)
    assert again.train.input.ids.tolist() == first.train.input.ids.tolist()


def test_models_that_differ_in_the_weight_of_a_persona_share_a_store(tmp_path, data):
    cache = tmp_path / "cache"
    stores = []
    for weight in (0.0, 0.7, 0.8):
        model = {**MODEL, "history": 2, "persona_first": True, "persona_weight": weight}
        made(data, tmp_path, data={"train": str(data), "cache": str(cache)}, model=model)
        stores.append(sorted(path.name for path in cache.iterdir() if path.is_dir()))
    assert stores[0] == stores[1] == stores[2]
    numbered = {**MODEL, "history": 2, "persona_first": True, "numbered_history": True}
    made(data, tmp_path, data={"train": str(data), "cache": str(cache)}, model=numbered)
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 2 * len(stores[0])


def test_two_that_need_the_same_cache_make_it_once(tmp_path, data, monkeypatch):
    """The second one comes while the first one tokenises: it waits, and takes what is there then."""
    waiting, built = threading.Event(), []
    real = prepare_module.build_store

    def slow(path, *given, **options):
        built.append(path)
        waiting.set()
        time.sleep(0.3)
        return real(path, *given, **options)

    monkeypatch.setattr(prepare_module, "build_store", slow)
    first = threading.Thread(target=made, args=(data, tmp_path))
    first.start()
    assert waiting.wait(60)
    made(data, tmp_path)
    first.join()
    assert len(built) == len(set(built)) == 2


def test_the_vocabulary_is_of_the_training_split_alone(tmp_path):
    for split, word in (("train", "zebra"), ("valid", "quokka")):
        write_examples([Example((word,), word)] * 50, tmp_path / "data" / f"{split}-0.parquet")
    tokenizer = made(
        tmp_path / "data", tmp_path / "tokens", vocabulary={"minimum_count": 2}
    ).tokenizer
    assert len(tokenizer.encode("zebra")) < len(tokenizer.encode("quokka"))


def test_a_sample_counts_about_as_many_utterances(tmp_path, data, monkeypatch):
    counted = []
    build = prepare_module.build_vocabulary

    def counting(config, texts):
        kept = list(texts)
        counted.append(len(kept))
        return build(config, kept)

    monkeypatch.setattr(prepare_module, "build_vocabulary", counting)
    made(data, tmp_path / "a", vocabulary={"minimum_count": 5, "sample": 640})
    made(data, tmp_path / "b", vocabulary={"minimum_count": 5, "sample": 100})
    assert counted[0] == 640
    assert 60 < counted[1] < 140


@pytest.mark.parametrize(("kind", "together"), [("ngrams", True), ("subwords", False)])
def test_a_sample_of_n_grams_is_of_whole_pairs_one_of_subwords_of_texts(
    tmp_path, monkeypatch, kind, together
):
    pairs = [
        Example((f"question {number}",), f"answer {number}", thread=str(number))
        for number in range(400)
    ]
    write_examples(pairs, tmp_path / "data" / "train-0.parquet")
    counted, build = [], prepare_module.build_vocabulary

    def counting(config, texts):
        counted.extend(texts)
        return build(config, counted)

    monkeypatch.setattr(prepare_module, "build_vocabulary", counting)
    least = {"bigrams": 9} if together else {}
    sections = {
        "vocabulary": {"kind": kind, "minimum_count": 1, "sample": 400, **least},
        "validation": {"examples": 0},
    }
    made(tmp_path / "data", tmp_path / "a", model=NGRAM if together else MODEL, **sections)
    numbers = [
        {text.split()[1] for text in counted if text.startswith(side)}
        for side in ("question", "answer")
    ]
    assert 150 < len(numbers[0]) < 250
    assert (numbers[0] == numbers[1]) == together


def test_two_pretrainings_may_share_the_vocabulary_of_a_third_set(tmp_path):
    """POLY 4.1: the byte pairs are learned once, from other texts than those of either pretraining."""
    folders = {}
    for name, word in (("talk", "zebra"), ("books", "quokka"), ("words", "axolotl")):
        folders[name] = tmp_path / name
        write_examples(
            [Example((f"{word} {n}",), word) for n in range(50)], folders[name] / "train-0.parquet"
        )
    plain = {"model": {"kind": "masked-lm", **SHAPE}, "validation": {"examples": 0}}
    shared = {"kind": "bpe", "merges": 9, "data": [str(folders["words"])]}
    talk, books = (
        made(folders[name], tmp_path / "tokens", vocabulary=shared, **plain).tokenizer
        for name in ("talk", "books")
    )
    assert talk.fingerprint == books.fingerprint
    _, (known, unknown) = talk.encode_ragged(["axolotl", "quokkas"])
    assert known < unknown, "equally long words"
    alone = made(
        folders["talk"], tmp_path / "tokens", vocabulary={"kind": "bpe", "merges": 9}, **plain
    ).tokenizer
    assert alone.fingerprint != talk.fingerprint
    absent = {**shared, "data": [str(tmp_path / "nowhere")]}
    with pytest.raises(
        InputError,
        match=r"vocabulary\.data: .*nowhere: no such file or folder; .* vocabulary\.data=",
    ):
        made(folders["talk"], tmp_path / "tokens", vocabulary=absent, **plain)


def test_missing_data_is_refused(tmp_path, data):
    with pytest.raises(InputError, match="give --data DIR"):
        made(Path(), tmp_path, data={})
    with pytest.raises(InputError, match="no such file or folder"):
        made(tmp_path / "nothing", tmp_path)
    with pytest.raises(
        InputError, match=r"no data to mix in: give --general DIR, or data\.mix\.0\.train"
    ):
        made(data, tmp_path, data={"train": str(data), "mix": [{"share": 0.5}]})
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="train-"):
        made(tmp_path / "empty", tmp_path)
    only = tmp_path / "only"
    only.mkdir()
    shutil.copy(data / "train-00000.parquet", only)
    with pytest.raises(InputError, match="valid-"):
        made(only, tmp_path)
    assert made(only, tmp_path, validation={"examples": 0}).valid == {}
    for split in ("train", "valid"):
        write_examples([Example(("",), "")], tmp_path / "data" / f"{split}-0.parquet")
    with pytest.raises(InputError, match=r"no training examples|no text|empty"):
        made(tmp_path / "data", tmp_path / "tokens", vocabulary={"minimum_count": 1})


def test_an_empty_training_part_is_refused_by_the_name_of_its_folder(tmp_path, data):
    empty = tmp_path / "empty"
    shutil.copytree(data, empty)
    for file in empty.glob("train-*.parquet"):
        write_examples([], file)
    told = "empty has no training examples to learn from: its train part is empty; name other data"
    with pytest.raises(InputError, match=told):
        made(empty, tmp_path)
    with pytest.raises(InputError, match=told):
        made(data, tmp_path, data={"train": str(data), "mix": [{"train": str(empty), "share": 0.5}]})


def encode(texts):
    """Vectors of six numbers that depend on the text alone."""
    return np.stack(
        [np.random.default_rng(list(text.encode())).normal(size=6) for text in texts]
    ).astype(np.float32)


def test_components_keep_the_weighted_inner_products_as_well_as_three_numbers_can():
    counts = np.array([5, 20, 30, 2, 10_000, 0, 0, 0, 0])
    table = word_vectors(encode, WORDS, counts, SIZE)
    full = word_vectors(encode, WORDS, counts, 6)
    shares = (counts[:5] + 0.5) / (counts[:5] + 0.5).sum()
    centred = encode([" ", "yes", "no", "ing", "the"]).astype(np.float64)
    centred = (centred - shares @ centred) * (1e-3 / (1e-3 + shares))[:, None]
    products = centred @ centred.T
    given = full[:5].astype(np.float64) @ full[:5].T.astype(np.float64)
    # nothing but a rotation and a factor
    assert np.allclose(given / given[0, 0], products / products[0, 0], rtol=1e-4)
    left = shares @ ((full[:5, SIZE:]) ** 2).sum(axis=1)
    for seed in range(20):  # no other three directions lose less
        directions, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, SIZE)))
        lost = full[:5] - full[:5] @ directions @ directions.T
        assert left <= shares @ (lost**2).sum(axis=1) + 1e-9
    assert np.isclose((table[:5] ** 2).mean(), 1.0, atol=1e-5)


def test_a_run_starts_from_them_and_computes_them_once(tmp_path, data, monkeypatch):
    calls = []

    def opened(name):
        calls.append(name)
        return SimpleNamespace(encode=lambda texts, **_: encode(texts))

    monkeypatch.setattr(prepare_module, "open_texts", opened)
    settings = {"init": {"words": "some encoder"}, "model": {**MODEL, "embedding_size": 6}}
    wanted = recipe(data, **settings)
    first, again = prepare(wanted, tmp_path / "tokens"), prepare(wanted, tmp_path / "tokens")
    assert calls == ["some encoder"]
    assert np.array_equal(first.words, again.words)
    frozen = [stage(rates={"embedding": 0.0}, steps=1)]
    summary = train(
        recipe(data, **settings, stage=frozen, validation={"examples": 0}), tmp_path / "run"
    )
    weights = rejoinder.load(summary.model, precision="fp32").module.embedding.weight.numpy()
    assert np.array_equal(weights, first.words)


def test_words_are_weighted_by_the_tokens_that_the_run_reads(tmp_path, data, monkeypatch):
    def encode(texts, **_):
        return np.array([[len(text), *map(ord, (text * 5)[:5])] for text in texts], np.float32)

    def words(cache, length):
        sections = {"data": {"train": str(data), "cache": str(tmp_path / cache)}}
        sections |= {"init": {"words": "some encoder"}, "text": {"max_length": length}}
        return made(data, tmp_path, **sections, model={**MODEL, "embedding_size": 6}).words

    monkeypatch.setattr(prepare_module, "open_texts", lambda _: SimpleNamespace(encode=encode))
    alone = words("alone", 1)
    assert not np.array_equal(words("shared", 20), alone)
    assert np.array_equal(words("shared", 1), alone)


@pytest.mark.parametrize("key", ["words", "encoder"])
def test_an_encoder_that_is_replaced_in_place_is_read_anew(tmp_path, data, monkeypatch, key):
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "modules.json").write_text("[]")
    weights = folder / "weights"

    def encode(texts, **_):
        factor = float(weights.read_text())
        return np.array([[len(text), factor, *([factor * 2] * 4)] for text in texts], np.float32)

    def opened(_, **__):
        calls.append(weights.read_text())
        return SimpleNamespace(encode=encode, encode_contexts=encode, encode_responses=encode)

    def vectors():
        prepared = prepare(wanted, tmp_path / "tokens")
        return prepared.words if key == "words" else np.array(prepared.teacher_vectors.vectors)

    calls = []
    monkeypatch.setattr(prepare_module, "open_texts", opened)
    monkeypatch.setattr("rejoinder.training.distillation.load", opened)
    section = {"init": {"words": str(folder)}, "distillation": {"encoder": str(folder)}}
    name = "init" if key == "words" else "distillation"
    wanted = recipe(data, **{name: section[name]}, model={**MODEL, "embedding_size": 6})
    weights.write_text("1")
    first = vectors()
    assert np.array_equal(vectors(), first)
    weights.write_text("9")
    assert not np.array_equal(vectors(), first)
    assert calls == ["1", "9"]


def write(folder, *pairs):
    write_examples(
        [Example(context, response) for context, response in pairs], folder / "train-0.parquet"
    )
    return folder


def test_a_store_holds_the_newest_message_and_the_response_unless_one_is_empty(tmp_path):
    pairs = (
        (("hello", "how are you"), "fine"),
        (("hello",), ""),
        (("hello", ""), "fine"),
        (("Hello there",), "at noon"),
    )
    store = build_store(
        tmp_path / "store", write(tmp_path / "data", *pairs), "train", Encode(TOKENIZER, 60)
    )
    for side, texts in (
        (store.input, ["how are you", "hello there"]),
        (store.response, ["fine", "at noon"]),
    ):
        for found, wanted in zip(
            side.gather(np.arange(len(store))), TOKENIZER.encode_ragged(texts), strict=True
        ):
            assert found.tolist() == wanted.tolist()
    assert '"empty": 2' in (tmp_path / "store" / "manifest.json").read_text()


def test_an_example_without_any_message_is_refused(tmp_path):
    data = write(tmp_path / "data", (("hello",), "fine"), ((), "fine"))
    with pytest.raises(InputError, match="empty context"):
        build_store(tmp_path / "store", data, "train", Encode(TOKENIZER, 60))
    assert list(tmp_path.iterdir()) == [data], "no half-written store is left"


@pytest.mark.parametrize(
    "damage",
    [
        lambda store: (store / "input.ids").write_bytes((store / "input.ids").read_bytes()[:-4]),
        lambda store: (store / "response.offsets").unlink(),
        lambda store: (store / "manifest.json").write_text('{"format": 0}'),
    ],
)
def test_a_damaged_store_is_refused(tmp_path, damage):
    store = tmp_path / "store"
    build_store(
        store, write(tmp_path / "data", (("hello",), "fine")), "train", Encode(TOKENIZER, 60)
    )
    damage(store)
    with pytest.raises(InputError, match="not a whole token store"):
        open_store(store)


@settings(max_examples=100)
@given(st.lists(texts, min_size=2, max_size=10))
def test_hashes_are_equal_exactly_where_texts_are(rows):
    ids = np.array([i for row in rows for i in row], dtype=np.int32)
    hashes = token_hashes(ids, np.array([len(row) for row in rows], dtype=np.int32)).tolist()
    for i, row in enumerate(rows):
        for j, other in enumerate(rows):
            assert (hashes[i] == hashes[j]) == (row == other)


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


class Copying:
    """An engine whose tasks run here, on copies, as workers get them."""

    processes = 1

    def map(self, work, tasks, _on_wait=None):
        return (
            pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(task))) for task in tasks
        )


@pytest.mark.parametrize("kind", ["folder", "table", "text"])
def test_an_engine_makes_the_same_store(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(tables, "GROUP_ROWS", 3)
    data = tmp_path / "data"
    for number in range(3):
        texts = [
            (("how", f"are you {place}"), "" if place % 5 == 2 else f"fine {number}")
            for place in range(30)
        ]
        examples = [
            Example(context, response, thread=str(place))
            for place, (context, response) in enumerate(texts)
        ]
        write_examples(examples, data / f"train-{number}.parquet")
    if kind == "table":
        data = (data / "train-1.parquet").rename(tmp_path / "one.parquet")
    elif kind == "text":
        lines = [
            json.dumps({"context": [f"how are {number}"], "response": "fine"})
            for number in range(50)
        ]
        data = tmp_path / "one.jsonl"
        data.write_text("\n".join(lines))
    assert len(list(pieces_of(data, "train"))) == (6 if kind == "folder" else 1)
    history = HistoryText(3)
    here = build_store(tmp_path / "here", data, "train", Encode(TOKENIZER, 60, history))
    told = []
    with LocalEngine(2) if kind == "folder" else nullcontext(Copying()) as engine:
        there = build_store(
            tmp_path / "there", data, "train", Encode(TOKENIZER, 60, history), told.append, engine
        )
    assert len(here) == len(there) > 20
    assert sum(told) >= len(here)
    assert files(tmp_path / "here") == files(tmp_path / "there")


def test_whole_dialogues_in_workers_too(tmp_path):
    pytest.importorskip("tokenizers")
    from tests.training.transformers import letters

    tokenizer = letters()
    dialogue = Dialogue(
        tokenizer, 30, 20, (tokenizer.start_id,), (tokenizer.end_id,), (tokenizer.turn_id,)
    )
    data = write(
        tmp_path / "data",
        (("how", "are you"), "fine"),
        (("a [SEP] mark",), "no [SEP] mark"),
        (("b",), " "),
    )
    here = build_store(tmp_path / "here", data, "train", Encode(tokenizer, 20, dialogue=dialogue))
    build_store(
        tmp_path / "there",
        data,
        "train",
        Encode(tokenizer, 20, dialogue=dialogue),
        engine=Copying(),
    )
    assert len(here) == 2
    assert files(tmp_path / "here") == files(tmp_path / "there")
