"""Token stores: whole or absent, named by content, equal where texts are equal."""

import json
import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora import examples as tables
from rejoinder.corpora.engine import LocalEngine
from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import pieces_of, write_examples
from rejoinder.errors import InputError
from rejoinder.models.dialogue import Dialogue, HistoryText
from rejoinder.text.vocabulary import build_subwords
from rejoinder.training.tokens import Encode, build_store, open_store, token_hashes

TOKENIZER = build_subwords(["hello there", "how are you", "fine thanks", "at noon"], minimum_count=1)


def write(folder, *pairs):
    write_examples([Example(context, response) for context, response in pairs], folder / "train-0.parquet")
    return folder


def test_a_store_holds_the_newest_message_and_the_response(tmp_path):
    data = write(tmp_path / "data", (("hello", "how are you"), "fine"), (("Hello there",), "at noon"))
    store = build_store(tmp_path / "store", data, "train", Encode(TOKENIZER, 60))
    for side, texts in ((store.input, ["how are you", "hello there"]), (store.response, ["fine", "at noon"])):
        for row, text in enumerate(texts):
            ids, lengths = side.gather(np.array([row]))
            assert ids.tolist() == TOKENIZER.encode(text)
            assert lengths.tolist() == [len(ids)]


def test_examples_without_a_token_on_a_side_are_left_out(tmp_path):
    data = write(tmp_path / "data", (("hello",), ""), (("hello", ""), "fine"), (("how",), "thanks"))
    store = build_store(tmp_path / "store", data, "train", Encode(TOKENIZER, 60))
    assert len(store) == 1
    assert store.response.ids.tolist() == TOKENIZER.encode("thanks")
    assert '"empty": 2' in (tmp_path / "store" / "manifest.json").read_text()


def test_an_example_without_any_message_is_refused(tmp_path):
    data = write(tmp_path / "data", (("hello",), "fine"), ((), "fine"))
    with pytest.raises(InputError, match="empty context"):
        build_store(tmp_path / "store", data, "train", Encode(TOKENIZER, 60))
    assert list(tmp_path.iterdir()) == [data], "no half-written store is left"


@pytest.mark.parametrize("damage", ["cut", "missing", "format"])
def test_a_damaged_store_is_refused(tmp_path, damage):
    store = tmp_path / "store"
    build_store(store, write(tmp_path / "data", (("hello",), "fine")), "train", Encode(TOKENIZER, 60))
    match damage:
        case "cut":
            (store / "input.ids").write_bytes((store / "input.ids").read_bytes()[:-4])
        case "missing":
            (store / "response.offsets").unlink()
        case "format":
            (store / "manifest.json").write_text('{"format": 0}')
    with pytest.raises(InputError, match="not a whole token store"):
        open_store(store)


texts = st.lists(st.integers(0, 5), max_size=5)


@settings(max_examples=100, deadline=None)
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

    remote = False

    def map(self, work, tasks):
        copy = pickle.loads(pickle.dumps(work))
        return (copy(pickle.loads(pickle.dumps(task))) for task in tasks)


@pytest.mark.parametrize("kind", ["folder", "table", "text"])
def test_an_engine_makes_the_same_store(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(tables, "GROUP_ROWS", 3)
    data = tmp_path / "data"
    for number in range(3):
        texts = [(("how", f"are you {place}"), "" if place % 5 == 2 else f"fine {number}") for place in range(30)]
        examples = [Example(context, response, thread=str(place)) for place, (context, response) in enumerate(texts)]
        write_examples(examples, data / f"train-{number}.parquet")
    if kind == "table":
        data = (data / "train-1.parquet").rename(tmp_path / "one.parquet")
    elif kind == "text":
        lines = [json.dumps({"context": [f"how are {number}"], "response": "fine"}) for number in range(50)]
        data = tmp_path / "one.jsonl"
        data.write_text("\n".join(lines))
    assert len(list(pieces_of(data, "train"))) == (6 if kind == "folder" else 1)
    history = HistoryText(3)
    here = build_store(tmp_path / "here", data, "train", Encode(TOKENIZER, 60, history))
    told = []
    with LocalEngine(2) if kind == "folder" else nullcontext(Copying()) as engine:
        there = build_store(tmp_path / "there", data, "train", Encode(TOKENIZER, 60, history), told.append, engine)
    assert len(here) == len(there) > 20
    assert sum(told) >= len(here)
    assert files(tmp_path / "here") == files(tmp_path / "there")


def test_whole_dialogues_in_workers_too(tmp_path):
    pytest.importorskip("tokenizers")
    from tests.training.transformers import letters

    tokenizer = letters()
    dialogue = Dialogue(tokenizer, 30, 20, (tokenizer.start_id,), (tokenizer.end_id,), (tokenizer.turn_id,))
    data = write(tmp_path / "data", (("how", "are you"), "fine"), (("a [SEP] mark",), "no [SEP] mark"), (("b",), " "))
    here = build_store(tmp_path / "here", data, "train", Encode(tokenizer, 20, dialogue=dialogue))
    build_store(tmp_path / "there", data, "train", Encode(tokenizer, 20, dialogue=dialogue), engine=Copying())
    assert len(here) == 2
    assert files(tmp_path / "here") == files(tmp_path / "there")
