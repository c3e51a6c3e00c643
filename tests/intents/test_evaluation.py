"""Figures, draws, cross-validation, suspect labels, learning curves, reports."""

import contextlib
import dataclasses
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.encoders.sentence import SentenceEncoder
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.intents import fitting
from rejoinder.intents.classifier import IntentClassifier, encode_data, train_classifier
from rejoinder.intents.data import IntentData, TrainingTexts
from rejoinder.intents.sampling import draw, shuffled_ranks, text_groups
from rejoinder.intents.evaluation.accuracy import evaluate
from rejoinder.intents.evaluation.learning_curves import count_trainings, crossed_interval, few_shot
from rejoinder.intents.evaluation.suspects import suspect_labels
from rejoinder.intents.fitting import FOLDS, cross_validate, folds_of, oos_folds_of, repeated
from rejoinder.intents.heads import Centroids, Encoded, FeedForward, Logistic, head_from
from rejoinder.intents.refusal import Rejection
from rejoinder.intents.report import Report, build_report, draw_confusions, write_report
from tests.intents.toy import WordVectors, multi_label_data, toy_data

ENCODER = WordVectors(64)


def train(data, **options):
    return train_classifier(ENCODER, TrainingTexts(data), **options)


def encoded(data):
    return encode_data(ENCODER, data, data.names)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 3))
def test_a_draw_has_that_many_of_each_and_small_draws_are_parts_of_large_ones(classes, shots, seed):
    numbers = np.array(classes)
    chosen = draw(numbers, shots, seed)
    counts = np.bincount(numbers[chosen], minlength=5)
    assert counts.tolist() == [min(shots, classes.count(k)) for k in range(5)]
    assert set(chosen) <= set(draw(numbers, shots + 1, seed))
    assert draw(numbers, None, seed).tolist() == list(range(len(classes)))


def test_more_shots_are_better_and_intervals_hold_the_mean():
    train, test = encoded(toy_data(30)), encoded(toy_data(30, seed=1))
    few, many, everything = (
        few_shot(Logistic(), train, test, shots=s, seeds=range(4)) for s in (1, 10, None)
    )
    assert few.accuracy.value < many.accuracy.value
    assert (few.texts, many.texts, everything.texts) == (4, 40, 120)
    assert (many.trainings, everything.trainings) == (4, 1)
    for row in (few, many, everything):
        assert row.accuracy.low <= row.accuracy.value <= row.accuracy.high
        assert row.accuracy.value == pytest.approx(np.mean(row.each))
    multi_label = dataclasses.replace(train, multi_label=True)
    for part, seeds, said in ((train, (), "no seeds"), (multi_label, (0,), "one intent")):
        with pytest.raises(InputError, match=said):
            few_shot(Logistic(), part, test, shots=1, seeds=seeds)


@pytest.mark.parametrize("settings", [Logistic(), FeedForward(epochs=1, hidden_size=4, patience=0)])
def test_every_counter_ends_at_its_total(settings):
    totals, steps = {}, {}

    @contextlib.contextmanager
    def track(description, total, _unit):
        totals[description] = total
        steps[description] = 0

        def advance(count):
            steps[description] += count

        yield advance

    train, test = toy_data(10), toy_data(10, seed=1)
    classifier = train_classifier(ENCODER, TrainingTexts(train), settings)
    build_report(classifier, test, (), train, seeds=(0, 1), track=track)
    several = multi_label_data()
    classifier = train_classifier(ENCODER, TrainingTexts(several), multi_label=True)
    build_report(classifier, several, (), several, track=lambda *words: track(f"several {words[0]}", *words[1:]))
    assert totals == steps
    assert set(totals) == {"Encoding", "Cross-validating", "Learning curve", "several Encoding"}
    sizes = [1, 3, None]
    each = [few_shot(settings, encoded(train), encoded(test), n, range(3)).trainings for n in sizes]
    assert count_trainings(settings, sizes, range(3)) == sum(each)


def test_the_interval_covers_trainings_as_well_as_texts():
    same = np.tile(np.arange(400) % 2 == 0, (6, 1))
    apart = np.repeat([[False], [True]], 3, axis=0).repeat(400, axis=1)
    assert same.mean() == apart.mean() == 0.5
    narrow, wide = crossed_interval(same), crossed_interval(apart)
    assert narrow.high - narrow.low == pytest.approx(4 * 0.5 / 20, rel=0.2)
    assert wide.high - wide.low > 0.5


def fixed(logits, multi_label=False, **options):
    """A classifier that gives these logits for the texts "0", "1", ..."""
    count, labels = logits.shape
    head = head_from(
        {"layers.0.weight": logits.T.copy(), "layers.0.bias": np.zeros(labels)}
    )
    centroids = Centroids(np.zeros(count, np.float32), np.eye(count, dtype=np.float32))
    return IntentClassifier(
        one_hot(count), tuple("abcd"[:labels]), head, centroids, Logistic(), multi_label, **options
    )


def one_hot(size):
    """An encoder of the text "3" as the fourth unit vector."""
    rows = np.eye(size, dtype=np.float32)
    return SentenceEncoder(
        "one-hot", lambda texts, _: rows[[int(text) for text in texts]], size=size
    )


def test_figures_of_one_intent_per_text_by_hand():
    # true a a a b b c; taken for a b b b b a; nobody has d
    logits = np.eye(4, dtype=np.float32)[[0, 1, 1, 1, 1, 0]] * 5
    data = IntentData(tuple("012345"), tuple((name,) for name in "aaabbc"))
    found = evaluate(fixed(logits), data)
    assert found.accuracy.value == found.micro_f1 == pytest.approx(0.5)
    assert [(i.label, i.texts) for i in found.intents] == [("a", 3), ("b", 2), ("c", 1), ("d", 0)]
    expected = [(1 / 2, 1 / 3, 2 / 5), (1 / 2, 1, 2 / 3), (0, 0, 0), (0, 0, 0)]
    assert [(i.precision, i.recall, i.f1) for i in found.intents] == [
        pytest.approx(each) for each in expected
    ]
    assert found.macro_f1 == pytest.approx((2 / 5 + 2 / 3 + 0) / 3)
    assert found.matrix.tolist() == [[1, 2, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert [(p.true, p.predicted, p.count, p.of) for p in found.pairs] == [
        ("a", "b", 2, 3),
        ("c", "a", 1, 1),
    ]


def test_figures_of_several_intents_per_text_by_hand():
    logits = np.array([[5, 5, -5], [5, -5, -5], [-5, -5, -5], [5, 5, -5]], dtype=np.float32)
    data = IntentData(tuple("0123"), (("a", "b"), ("a", "b"), (), ("b",)))
    found = evaluate(fixed(logits, multi_label=True), data)
    assert found.accuracy.value == 0.5
    assert found.micro_f1 == pytest.approx(2 * 4 / (5 + 5))
    assert found.macro_f1 == pytest.approx((4 / 5 + 4 / 5) / 2)
    assert (found.pairs, found.matrix, found.out_of_scope) == ((), None, None)


def test_figures_of_a_rejection_by_hand():
    logits = np.log(
        np.array([[8, 1, 1], [6, 2, 2], [5, 1, 4], [4, 3, 3], [7, 2, 1]], dtype=np.float32)
    )
    data = IntentData(tuple("012"), (("a",), ("a",), ("b",)))
    found = evaluate(
        fixed(logits, rejection=Rejection("probability", 0.45)), data, ("3", "4")
    ).out_of_scope
    assert (found.in_scope_accuracy, found.in_scope_accuracy_unrefused) == (
        pytest.approx(2 / 3),
        pytest.approx(2 / 3),
    )
    assert (found.recall, found.precision, found.in_scope, found.out_of_scope) == (0.5, 0.5, 3, 2)
    assert found.auroc == pytest.approx(4 / 6)  # 0.6 above 0.2, 0.4, 0.5; 0.3 above 0.2
    nothing = evaluate(
        fixed(logits, rejection=Rejection("probability", 2.0)), data, ("3", "4")
    ).out_of_scope
    assert (nothing.recall, nothing.precision) == (0.0, None)
    found = evaluate(fixed(logits, rejection=Rejection("probability", 0.45)), data, ("3", "4"))
    text = Report(found, None, None).markdown()
    assert "By highest probability below 0.55; 3 texts in scope, 2 out of scope." in text
    assert found.refusal.in_scope_accuracy == found.out_of_scope.in_scope_accuracy
    assert f"refused {100 / 3:.1f} %" in text


def test_refused_texts_are_counted_where_no_test_text_is_out_of_scope(tmp_path):
    # every best label is right; of the four texts the last two are refused
    logits = np.log(np.array([[8, 1, 1], [1, 7, 2], [2, 3, 5], [5, 1, 4]], dtype=np.float32))
    data = IntentData(tuple("0123"), (("a",), ("b",), ("c",), ("a",)))
    found = evaluate(fixed(logits, rejection=Rejection("probability", 0.45)), data)
    assert found.accuracy.value == 1.0
    assert (found.refusal.in_scope_accuracy, found.refusal.in_scope_refused) == (0.5, 0.5)
    assert found.out_of_scope is None
    assert found.facts()["refused"] == "50.0%"
    write_report(Report(found, None, None), "abc", tmp_path / "report", pictures=False)
    written = json.loads((tmp_path / "report" / "report.json").read_text())["evaluation"]
    assert written["refusal"] == {"in_scope_accuracy": 0.5, "in_scope_refused": 0.5}
    said = "In scope: accepted and right 50.0 %, refused 50.0 %."
    assert said in (tmp_path / "report" / "report.md").read_text()
    plain = evaluate(fixed(logits), data)
    assert plain.refusal is None
    assert "refused" not in Report(plain, None, None).markdown() + str(plain.facts())


@given(st.lists(st.integers(0, 4), min_size=5, max_size=40))
def test_folds_spread_every_intent(classes):
    numbers = np.array(classes)
    found = folds_of(numbers, np.arange(len(numbers)), seed=0)
    for chosen in (*(numbers == k for k in set(classes)), numbers >= 0):
        counts = np.bincount(found[chosen], minlength=FOLDS)
        assert counts.max() - counts.min() <= 1


@given(st.lists(st.integers(0, 7), min_size=5, max_size=80), st.integers(0, 3))
def test_folds_of_different_texts_are_dealt_by_class(classes, seed):
    """Figures of data without copies stay what they were."""
    numbers = np.array(classes)
    counts = np.bincount(numbers)
    dealt = ((np.cumsum(counts) - counts)[numbers] + shuffled_ranks(numbers, seed)) % FOLDS
    for groups in (np.arange(len(numbers)), text_groups([f"text {n}" for n in range(len(numbers))])):
        assert folds_of(numbers, groups, seed).tolist() == dealt.tolist()


GROUPED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=5, max_size=80)


@given(GROUPED, st.integers(0, 3))
def test_folds_keep_equal_texts_together(rows, seed):
    classes, groups = np.array(rows).T
    found = folds_of(classes, groups, seed)
    assert all(len(set(found[groups == group])) == 1 for group in set(groups))
    if len(set(groups)) >= FOLDS:
        assert set(found) == set(range(FOLDS))


@given(GROUPED, st.integers(0, 3))
def test_folds_spread_every_intent_as_well_as_its_copies_let_them(rows, seed):
    classes, groups = np.array([(group % 4, group) for _, group in rows]).T
    found = folds_of(classes, groups, seed)
    for number in set(classes):
        counts = np.bincount(found[classes == number], minlength=FOLDS)
        assert counts.max() - counts.min() <= np.bincount(groups[classes == number]).max()


def test_texts_out_of_scope_are_in_the_fold_of_their_copies():
    folds = np.array([3, 1])
    found = oos_folds_of(np.array([7, 8, 9, 8, 10, 11, 0, 12]), np.array([0, 9]), folds)
    assert found.tolist() == [0, 1, 1, 1, 4, 0, 3, 2]
    none = np.array([], dtype=np.int64)
    assert oos_folds_of(np.arange(8), none, none).tolist() == [0, 1, 2, 3, 4, 0, 1, 2]


def test_equal_texts_are_one_text():
    texts = ["Where is my card?", "lost card", "where is MY card", "Lost card!", "balance"]
    assert text_groups(texts).tolist() == [0, 1, 0, 1, 2]
    assert text_groups([]).tolist() == []
    assert repeated(np.array([0, 1, 0, 0, 2]), text_groups(texts)).tolist() == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_no_head_has_seen_a_copy_of_what_it_scores(monkeypatch):
    seen = []
    fit = fitting.fit

    def spy(settings, data, **options):
        seen.append({text.lower() for text in data.texts})
        return fit(settings, data, **options)

    monkeypatch.setattr(fitting, "fit", spy)
    data = toy_data(6)
    twice = IntentData((*data.texts, *(text.upper() for text in data.texts)), data.labels * 2)
    part = encoded(twice)
    # the first text in scope is out of scope, too
    oos = Encoded(data.texts[:1], part.vectors[:1], np.zeros((1, 4), dtype=np.float32))
    found = cross_validate(Logistic(), part, oos)
    assert sum(len(data.texts) - len(texts) for texts in seen) == len(data.texts)
    assert np.array_equal(found.logits[: len(data)], found.logits[len(data) :])
    assert np.array_equal(found.oos_scores[0], found.scores[0])


def test_too_few_different_texts_cannot_be_held_out():
    data = toy_data(1)
    twice = IntentData(data.texts * 2, data.labels * 2)
    with pytest.raises(InputError, match="4 different texts cannot be split into 5 folds"):
        cross_validate(Logistic(), encoded(twice))


@pytest.mark.parametrize("times", [1, 6])
def test_a_wrong_label_is_found_once_however_often_its_text_occurs(times):
    data = toy_data(20)
    texts = (*data.texts, *[data.texts[5].title()] * (times - 1))
    labels = (*data.labels[:5], ("weather",), *data.labels[6:], *[("weather",)] * (times - 1))
    spoilt = IntentData(texts, labels)
    part = encoded(spoilt)
    found = suspect_labels(spoilt, part, cross_validate(Logistic(strength=1.0), part))
    assert [each.text for each in found if each.text.lower() == data.texts[5]] == [data.texts[5]]
    by_text = {each.text: each for each in found[:5]}
    assert by_text[data.texts[5]].suggested == data.labels[5][0]


def test_wrong_labels_are_found():
    data = toy_data(20)
    wrong = {5: "weather", 33: "card_lost", 70: "top_up"}
    labels = tuple((wrong.get(i, names[0]),) for i, names in enumerate(data.labels))
    spoilt = IntentData(data.texts, labels)
    part = encoded(spoilt)
    found = suspect_labels(spoilt, part, cross_validate(Logistic(strength=1.0), part))
    assert {data.texts[i] for i in wrong} <= {suspect.text for suspect in found[:5]}
    assert all(-1 <= suspect.margin < 0 and suspect.label != suspect.suggested for suspect in found)
    by_text = {suspect.text: suspect for suspect in found}
    assert by_text[data.texts[5]].suggested == data.labels[5][0]


def test_a_report_is_written_whole(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    data, test, pictures = toy_data(10), toy_data(10, seed=1), {"confusions.png", "curve.png"}
    test = dataclasses.replace(test, texts=(*test.texts[:-1], "a | lost\ncard"))
    classifier = train(data)
    report = build_report(classifier, test, (), data, seeds=(0,))
    for folder, drawn in ((tmp_path / "drawn", pictures), (tmp_path / "plain", set())):
        write_report(report, classifier.labels, folder, pictures=bool(drawn))
        text = (folder / "report.md").read_text()
        for heading in (
            "# Intents",
            "The weakest intents",
            "Labels to look at",
            "Accuracy by the number of texts",
        ):
            assert heading in text
        assert "| weather | card_lost | 1 of 10 | a \\| lost card |" in text
        figures = json.loads((folder / "report.json").read_text())
        assert figures["evaluation"]["texts"] == 40
        texts = [point["texts"] for point in figures["curve"]]
        assert texts == sorted(texts)
        assert texts[-1] == 40
        assert {path.name for path in folder.iterdir()} == {"report.md", "report.json", *drawn}
        assert {name for name in pictures if f"({name})" in text} == drawn
    assert all((tmp_path / "drawn" / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="the extra 'plots'"):
        write_report(report, classifier.labels, tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_texts_and_intents_in_a_report_are_neither_tags_nor_links():
    rows = toy_data(10)
    labels = tuple(("R&D <b>" if name == "top_up" else name,) for (name,) in rows.labels)
    data = IntentData(rows.texts, labels)
    texts = [*data.texts[:-2], "a <img src=x> card", "[R&D](http://x) card"]
    spoilt = IntentData(tuple(texts), (*labels[:-1], ("R&D <b>",)))
    written = build_report(train(data), spoilt, (), spoilt, seeds=(0,)).markdown()
    assert "| a &lt;img src=x> card |" in written
    assert "| \\[R&amp;D](http://x) card | R&amp;D &lt;b> |" in written
    assert "<b>" not in written
    assert "<img" not in written


def test_an_intent_whose_name_looks_like_a_formula_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw_confusions(np.eye(2, dtype=np.int64), ["card $_$", "weather"], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_curve_of_a_network_that_stops_early_begins_with_two_texts():
    data = toy_data(10)
    classifier = train_classifier(ENCODER, TrainingTexts(data), FeedForward(epochs=2, hidden_size=4))
    report = build_report(classifier, toy_data(10, seed=1), (), data, seeds=(0,))
    assert min(point.shots for point in report.curve if point.shots) >= 2


def test_a_report_of_several_labels_or_without_training_texts(tmp_path):
    data = multi_label_data()
    classifier = train(data, multi_label=True)
    report = build_report(classifier, data, (), data)
    write_report(report, classifier.labels, tmp_path / "report")
    assert (report.curve, report.suspects, report.evaluation.matrix) == (None, None, None)
    one = train(toy_data())
    assert build_report(one, toy_data(seed=1)).curve is None
    with pytest.raises(InputError, match="differ from the classifier"):
        build_report(one, toy_data(seed=1), (), toy_data(topics=("weather", "top_up")))
