"""A small corpus from files to folder: nothing evaluated is trained on, and all counts add up."""

import json
import random
from collections import Counter

import pytest

from rejoinder.corpora.keys import words_of
from rejoinder.corpora.splits import SPLITS, conversation_thread, split_of
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.errors import InputError
from workshop.corpus.build import build_corpus, markdown
from workshop.corpus.plan import CorpusPlan, Evaluation, Source

WORDS = [
    a + b for a in ("ba", "de", "fi", "go", "lu", "ma") for b in ("ta", "ri", "no", "sel", "k", "x")
]


def sentence(rng, count=9):
    return " ".join(rng.choice(WORDS) for _ in range(count))


def dialogues(seed, count=60):
    rng = random.Random(seed)
    return [
        {"id": f"{seed}-{n}", "turns": [sentence(rng) for _ in range(rng.randint(2, 6))]}
        for n in range(count)
    ]


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, records in files.items():
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(record) + "\n" for record in records), "utf-8"
        )
    return folder


def recipe(*names, **more):
    sources = tuple(Source(name=name, licence="none", file=f"{name}.jsonl") for name in names)
    return CorpusPlan(kind="corpus", **{"source": sources, **more})


def built(folder, output, wanted, **more):
    counts = build_corpus(wanted, folder, output, **more)
    there = [split for split in ("train", "valid") if list(output.glob(f"{split}-*"))]
    read = {split: list(read_examples(output, split)) for split in there}
    read["test"] = [
        example for part in sorted(output.glob("test/*")) for example in read_examples(part, "test")
    ]
    return counts, {split: read.get(split, []) for split in SPLITS}


def words(example):
    return tuple(words_of(example.context[-1])), tuple(words_of(example.response))


def keys(examples):
    return {words(example) for example in examples}


def test_a_share_of_the_training_dialogues_is_spaced_out(tmp_path):
    records = [
        {**record, "turns": [f"{turn}." for turn in record["turns"]]}
        for record in dialogues(1, 300)
    ]
    folder = write(tmp_path / "in", a=records)
    _, plain = built(folder, tmp_path / "plain", recipe("a"))
    _, read = built(folder, tmp_path / "out", recipe("a", spaced=0.3))
    assert read["test"] == plain["test"]
    assert [example.id for example in read["train"]] == [example.id for example in plain["train"]]
    spaced = {}
    for example, before in zip(read["train"], plain["train"], strict=True):
        texts = (*example.context, example.response)
        assert tuple(text.replace(" .", ".") for text in texts) == (
            *before.context,
            before.response,
        )
        spaced.setdefault(example.thread, set()).update(text.endswith(" .") for text in texts)
    # a dialogue is spaced out as a whole or not at all
    assert all(len(kinds) == 1 for kinds in spaced.values())
    assert 0.2 < sum(kinds == {True} for kinds in spaced.values()) / len(spaced) < 0.4


def test_the_same_conversation_elsewhere_is_held_out_alike(tmp_path):
    records = dialogues(2, 150)
    other = [
        {"id": record["id"], "turns": [turn.upper() + "!" for turn in record["turns"]]}
        for record in records
    ]
    for record in other:  # another package cuts messages elsewhere
        record["turns"][-2:] = (
            [" ".join(record["turns"][-2:])] if len(record["turns"]) > 3 else record["turns"][-2:]
        )
    _, one = built(write(tmp_path / "one", a=records), tmp_path / "out1", recipe("a"))
    _, two = built(write(tmp_path / "two", a=other), tmp_path / "out2", recipe("a"))
    for split in SPLITS:
        names = [{example.id.partition(":")[0] for example in read[split]} for read in (one, two)]
        assert names[0] == names[1]


def test_order_of_dialogues_does_not_matter(tmp_path):
    records = [*dialogues(3), *dialogues(3)[:20]]
    records[25]["turns"][1:3] = records[40]["turns"][:2]
    caps = (Source(name="a", licence="none", file="a.jsonl", cap=90),)
    wanted = recipe(source=caps, same_words=12)
    straight, one = built(write(tmp_path / "one", a=records), tmp_path / "out1", wanted)
    turned, two = built(write(tmp_path / "two", a=records[::-1]), tmp_path / "out2", wanted)
    assert {split: keys(one[split]) for split in SPLITS} == {
        split: keys(two[split]) for split in SPLITS
    }
    assert straight["total"] == turned["total"]
    assert len(one["train"]) == 90
    uncapped = Source(name="a", licence="none", file="a.jsonl")
    _, every = built(
        write(tmp_path / "all", a=records),
        tmp_path / "out3",
        recipe(source=(uncapped,), same_words=12),
    )
    kept, whole = (
        Counter(example.id.partition(":")[0] for example in read["train"]) for read in (one, every)
    )
    assert sum(kept[name] != whole[name] for name in kept) <= 1 < len(whole) - len(kept), (
        "dialogues are drawn whole"
    )


def test_a_transfer_source_only_validates_and_holds_out_what_it_shares(tmp_path):
    mine, aside = dialogues(8, 80), dialogues(9, 30)
    mine[7]["turns"], mine[9]["turns"][:2] = aside[3]["turns"], aside[4]["turns"][:2]
    folder = write(tmp_path / "in", a=mine, b=aside)
    sources = [
        Source(name=name, licence="none", file=f"{name}.jsonl", transfer=name == "b")
        for name in "ab"
    ]
    counts, read = built(folder, tmp_path / "out", recipe(source=tuple(sources), same_words=12))
    assert [path.name for path in (tmp_path / "out" / "test").iterdir()] == ["a"]
    kept = list(read_examples(tmp_path / "out" / "transfer" / "b", "valid"))
    assert len(kept) == counts["sources"]["b"]["test"]["kept"] > 60
    assert counts["sources"]["b"]["train"]["pairs"] == counts["sources"]["b"]["valid"]["pairs"] == 0
    assert {example.source for split in SPLITS for example in read[split]} == {"a"}
    trained = {
        example.id.partition(":")[0] for split in ("train", "valid") for example in read[split]
    }
    assert not {"8-7", "8-9"} & trained
    assert not keys(kept) & keys(read["train"])
    with pytest.raises(ValueError, match="with transfer = true there are none"):
        Source(name="b", licence="none", transfer=True, cap=9)


def test_splits_share_no_longer_pair_and_no_pair_comes_twice(tmp_path):
    rng = random.Random(4)
    records = dialogues(4, 120)
    for _ in range(80):  # turns of one dialogue in another one
        one, other = rng.sample(records, 2)
        other["turns"] += one["turns"][:2]
    counts, read = built(
        write(tmp_path / "in", a=records[:70], b=records[70:]), tmp_path / "out", recipe("a", "b")
    )
    for split in SPLITS:
        assert len(keys(read[split])) == len(read[split])
    assert not keys(read["train"]) & keys(read["test"])
    assert not keys(read["valid"]) & keys(read["test"])
    assert counts["total"]["train"]["dropped"]["duplicate"] > 0


def test_short_common_pairs_stay(tmp_path):
    records = dialogues(5, 200)
    for record in records:
        record["turns"] = [*record["turns"], "Thank you!", "You're welcome."]
    _, read = built(write(tmp_path / "in", a=records), tmp_path / "out", recipe("a"))
    assert (("thank", "you"), ("you", "re", "welcome")) in keys(read["train"]) & keys(read["test"])


def test_near_copies_of_a_test_pair_are_left_out(tmp_path):
    records = dialogues(6, 200)
    held = next(
        record for record in records if split_of(conversation_thread(record["turns"])) == "test"
    )
    number = 0
    while True:  # a dialogue of the training part that says nearly the same
        copy = {
            "id": "copy",
            "turns": [f"well {held['turns'][0]}", f"{held['turns'][1]} number{number}"],
        }
        if split_of(conversation_thread(copy["turns"])) == "train":
            break
        number += 1
    counts, read = built(write(tmp_path / "in", a=[*records, copy]), tmp_path / "out", recipe("a"))
    assert "copy:1" not in {example.id for example in read["train"]}
    assert counts["leaks"] == {"a": {"equal": 0, "near": 1}}
    assert counts["total"]["train"]["dropped"] == {"near to evaluated": 1}


def test_what_evaluation_sets_hold_is_left_out(tmp_path):
    records = [
        record
        for record in dialogues(7, 200)
        if split_of(conversation_thread(record["turns"])) == "train"
    ]
    evaluation = tmp_path / "eval"
    evaluation.mkdir()
    (evaluation / "texts.csv").write_text(f"text,label\n{records[0]['turns'][1]},x\n", "utf-8")
    pair = records[1]["turns"][:2]
    (evaluation / "pairs.jsonl").write_text(json.dumps({"turns": pair}) + "\n", "utf-8")
    readers = {"texts": ("texts", "texts.csv"), "pairs": ("jsonl", "pairs.jsonl")}
    sets = tuple(
        Evaluation(name=name, reader=reader, files=(file,))
        for name, (reader, file) in readers.items()
    )
    folder, wanted = write(tmp_path / "in", a=records), recipe("a", evaluation=sets)
    counts, read = built(folder, tmp_path / "out", wanted, evaluation=evaluation)
    said = {
        message for example in read["train"] for message in (example.context[-1], example.response)
    }
    assert records[0]["turns"][1] not in said
    assert tuple(tuple(words_of(text)) for text in pair) not in keys(read["train"])
    assert counts["evaluation"] == {
        "texts": {"pairs": 0, "texts": 1},
        "pairs": {"pairs": 1, "texts": 0},
    }
    # The text is a response, and where its dialogue goes on also an input.
    assert counts["leaks"]["texts"] == {"equal": 1 + (len(records[0]["turns"]) > 2), "near": 0}
    assert counts["leaks"]["pairs"] == {"equal": 1, "near": 0}


def test_branches_of_a_tree_stay_together(tmp_path):
    records = []
    for record in dialogues(8, 100):
        turns = record["turns"]
        records += [
            record,
            {"id": f"{record['id']}b", "from": 2, "turns": [*turns[:2], f"{turns[1]} branch"]},
        ]
    _, read = built(
        write(tmp_path / "in", a=records), tmp_path / "out", recipe("a", same_words=1_000)
    )
    of_split = {
        split: {example.id.partition(":")[0].rstrip("b") for example in read[split]}
        for split in SPLITS
    }
    assert not of_split["train"] & of_split["test"]
    assert not of_split["train"] & of_split["valid"]


def test_counts_add_up(tmp_path):
    records = dialogues(9, 150)
    records += [
        {"turns": ["...", sentence(random.Random(1))]},
        {"turns": ["see", "http://example.org/x"]},
    ] * 30
    counts, read = built(
        write(tmp_path / "in", a=records, b=dialogues(9, 20)), tmp_path / "out", recipe("a", "b")
    )
    for source in [*counts["sources"].values(), counts["total"]]:
        assert source["pairs"] == sum(source[split]["pairs"] for split in SPLITS)
        for split in SPLITS:
            assert source[split]["pairs"] == source[split]["kept"] + sum(
                source[split]["dropped"].values()
            )
    for split in SPLITS:
        assert counts["total"][split]["kept"] == len(read[split])
    assert counts["total"]["pairs"] == sum(
        len(r["turns"]) - 1 for r in [*records, *dialogues(9, 20)]
    )
    assert json.loads((tmp_path / "out" / "counts.json").read_text()) == json.loads(
        json.dumps(counts)
    )
    assert f"| **all** | | {len(records) + 20} |" in markdown(counts)


def test_missing_files_are_named(tmp_path):
    folder = write(tmp_path / "in", a=dialogues(1))
    with pytest.raises(InputError, match=r"b\.jsonl is not there"):
        build_corpus(recipe("a", "b"), folder, tmp_path / "out")
    for reader, message in (("nothing", "no reader 'nothing'"), ("texts", "is not there")):
        sets = (Evaluation(name="x", reader=reader, files=("x",)),)
        with pytest.raises(InputError, match=message):
            build_corpus(
                recipe("a", evaluation=sets), folder, tmp_path / "out", evaluation=tmp_path
            )
    assert not (tmp_path / "out").exists()
