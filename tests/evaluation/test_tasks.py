"""Which candidates each example gets, and which examples are drawn, to be ranked or to be learned from."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import split_of
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.errors import InputError
from rejoinder.evaluation.tasks import ranking_task, sample, training_examples
from tests.evaluation.fakes import number, numbered_examples


@settings(max_examples=50)
@given(st.integers(2, 8), st.integers(8, 40), st.integers(0, 99))
def test_each_response_is_a_candidate_for_the_others_of_its_group(n, count, seed):
    task = ranking_task(numbered_examples(count), candidates=n, seed=seed)
    assert len(task) == count // n * n
    assert len(task) + task.dropped == count
    for start in range(0, len(task), n):
        group = [number(context[-1]) for context in task.contexts[start : start + n]]
        for place in range(start, start + n):
            assert [number(text) for text in task.candidates[place]] == group
            assert number(task.candidates[place][task.labels[place]]) == number(
                task.contexts[place][-1]
            )
    assert len(set(task.contexts)) == len(task)
    assert count < 20 or [number(context[-1]) for context in task.contexts] != list(
        range(len(task))
    ), "shuffled"


def given_example(name, label, texts=("a", "b", "c")):
    return Example((name,), texts[label or 0], id=name, candidates=texts, label=label)


FINE = given_example("fine", 0)


def test_what_cannot_be_ranked_is_refused_with_what_would_work():
    for examples, options, message in (
        (
            12,
            {},
            "12 examples cannot fill a group of 100 candidates; give more data",
        ),
        (1, {"candidates": 2}, "1 examples cannot fill a group of 2 candidates; give more data"),
        (0, {"candidates": 10}, "0 examples cannot fill"),
        (10, {"candidates": 1}, "candidates is 1; give a whole number, 2 or more"),
        (10, {"candidates": -5}, "candidates is -5; give a whole number, 2 or more"),
        (
            [FINE, given_example("x", None)],
            {},
            "example x has 3 candidates and the label None; it is 0 to 2",
        ),
        (
            [FINE, dataclasses.replace(FINE, label=3)],
            {},
            "3 candidates and the label 3; it is 0 to 2",
        ),
        (
            [FINE, given_example("x", 0, ("a",))],
            {},
            "example x has 1 candidate; ranking needs at least 2",
        ),
        ([FINE, Example(("m",), "a")], {}, "1 of 2 examples have candidates"),
        ([FINE], {"pool": ["a", "b"]}, "1 of 1 examples have their own candidates"),
        (
            [Example(("x",), "a")],
            {"pool": ["b", "c"]},
            "none of 1 responses, such as 'a', is one of the 2 candidates",
        ),
        ([Example(("x",), "a")], {"pool": ["a", "a"]}, "1 examples and 1 different candidates"),
        ([], {"pool": ["a", "b"]}, "0 examples and 2 different candidates"),
    ):
        examples = numbered_examples(examples) if isinstance(examples, int) else examples
        with pytest.raises(InputError, match=message):
            ranking_task(examples, **options)


def test_units_are_threads_of_a_source_and_single_examples_beside_them():
    threads = [("s", "1"), ("s", "2"), ("s", "1"), ("t", "1"), ("s", ""), ("s", "")]
    examples = [dataclasses.replace(given_example("x", 0), source=s, thread=t) for s, t in threads]
    task = ranking_task(examples)
    assert task.units.tolist() == [0, 1, 0, 2, 3, 4]
    assert task.unit == "thread"


def test_the_fingerprint_tells_tasks_apart():
    base = [given_example("x", 0), given_example("y", 1)]
    variants = [
        base,
        base[::-1],
        [given_example("x", 1), given_example("y", 1)],
        [given_example("z", 0), given_example("y", 1)],
        [given_example("x", 0), given_example("y", 1, ("a", "b", "d"))],
        [given_example("x", 0), given_example("y", 1, ("a", "b", "c", "d"))],
        [given_example("x", 0), given_example("y", 1, ("a", "b, c", "c"))],
    ]
    assert len({ranking_task(examples).fingerprint for examples in variants}) == len(variants)
    # lists that are not shared
    copies = [given_example("x", 0, tuple("abc")), given_example("y", 1, tuple("abc"))]
    assert ranking_task(copies).fingerprint == ranking_task(base).fingerprint
    assert ranking_task([given_example("\ud800 \x00", 0)]).fingerprint, (
        "of a text that is not proper Unicode, too"
    )


def test_a_pool_is_every_examples_candidates_each_text_once():
    """Three questions, two of which have the same answer: it is there once, so nothing stands against its own copy."""
    examples = [Example((name,), answer) for name, answer in (("x", "a"), ("y", "b"), ("z", "a"))]
    task = ranking_task(examples, pool=["c", "a", "b", "a"])
    assert list(task.candidates) == [["c", "a", "b"]] * 3
    assert task.labels.tolist() == [1, 2, 1]
    assert task.contexts == [("x",), ("y",), ("z",)]
    assert (task.given, task.dropped) == (False, 0)
    assert np.array_equal(task.equals_right(np.arange(3)), np.eye(3, dtype=bool)[[1, 2, 1]])


def test_replies_are_found_by_what_is_left_of_them_without_case_spaces_and_punctuation():
    said = [
        "we open AT nine",
        "\uff37e open at\u00a0nine!",
        "I\u2019ll look.",
        "Something else.",
        "का",
        "की",
    ]
    replies = [
        "We open at nine.",
        "I'll look",
        "We open \u2013 at nine?",
        "की",
        "का",
        "Bye \U0001f44b",
    ]
    task = ranking_task([Example((text,), text) for text in said], pool=replies, are_sent=True)
    assert task.candidates[0] == [*replies[:2], *replies[3:]]
    assert task.labels.tolist() == [0, 0, 1, 3, 2]
    assert (len(task), task.dropped, task.shared) == (5, 1, True)


def test_a_sample_is_a_subset_drawn_by_the_seed():
    examples = numbered_examples(50)
    steps = []
    first = sample(iter(examples), 10, 1, progress=steps.append)
    assert len({example.id for example in first}) == 10
    assert first == sample(iter(examples), 10, 1)
    assert first != sample(iter(examples), 10, 2)
    assert all(sample(examples, limit) == examples for limit in (None, 50, 80)), (
        "a sample of all keeps the order"
    )
    sample(iter(numbered_examples(2500)), 10, progress=steps.append)
    assert steps == [50, 1000, 1000, 500]


def test_every_example_is_equally_likely_to_be_drawn():
    counts = np.zeros(20)
    examples = numbered_examples(20)
    for seed in range(2000):
        for example in sample(examples, 5, seed):
            counts[int(example.id)] += 1
    # Each is drawn 500 times of 2000, with a standard deviation of 19.
    assert counts.min() > 500 - 5 * 19
    assert counts.max() < 500 + 5 * 19


@pytest.fixture
def folder(tmp_path):
    examples = numbered_examples(60)
    for split, part in {"train": slice(40), "valid": slice(40, 50), "test": slice(50, 60)}.items():
        write_examples(examples[part], tmp_path / "data" / f"{split}-0.parquet")
    return tmp_path / "data"


def test_a_folder_gives_its_training_split_or_a_draw_of_it(folder):
    for split in ("test", "valid"):
        assert {int(example.id) for example in training_examples(folder, folder, split)} == set(
            range(40)
        )
    some = training_examples(folder, folder, "test", limit=10, seed=1)
    assert len({example.id for example in some}) == 10
    assert some == training_examples(folder, folder, "test", limit=10, seed=1)
    assert some != training_examples(folder, folder, "test", limit=10, seed=2)


def test_what_is_ranked_is_not_learned_from(folder, tmp_path):
    for split in ("train", None):
        with pytest.raises(
            InputError, match=r"ranked with its training part.*--split valid or test.*--fit-on"
        ):
            training_examples(folder, folder, split)
    whole = tmp_path / "all.parquet"
    write_examples(numbered_examples(100, turns_per_thread=1), whole)
    with pytest.raises(InputError, match=r"all.parquet is ranked with its training part"):
        training_examples(whole, whole, None)
    assert training_examples(whole, folder, None)
    learned = training_examples(whole, whole, "test")
    assert learned
    assert {split_of(example.thread) for example in learned} == {"train"}


def test_data_without_a_training_split(folder, tmp_path):
    (folder / "train-0.parquet").unlink()
    with pytest.raises(InputError, match=r"no training examples.*--fit-on.*has no train part"):
        training_examples(folder, folder, "test")
    tests = [
        each
        for each in numbered_examples(200, turns_per_thread=1)
        if split_of(each.thread) == "test"
    ]
    write_examples(tests, tmp_path / "tests.parquet")
    with pytest.raises(InputError, match=r"tests.parquet has no training example.*--fit-on"):
        training_examples(tmp_path / "tests.parquet", folder, "test")
