"""A classifier from texts to answers, its folder, its encoders, what it refuses."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.arrays import unit_rows
from rejoinder.encoders.open import open_texts
from rejoinder.encoders.sentence import concatenate
from rejoinder.errors import InputError
from rejoinder.digests import signed
from rejoinder.intents.classifier import train_classifier
from rejoinder.intents.data import IntentData, TrainingTexts
from rejoinder.intents.evaluation.accuracy import evaluate
from rejoinder.intents.folder import CONFIG, WEIGHTS, load_classifier, save_classifier
from rejoinder.intents.heads import Centroids, Encoded, Logistic
from rejoinder.intents.refusal import (
    BY_HELD_OUT,
    BY_OUTSIDE_FEW,
    BY_OUTSIDE_MISFIT,
    HeldOut,
    Rejection,
    best_threshold,
    choose_rejection,
    refused_words,
    reject_outside,
    scores,
)
from tests.intents.toy import TOPICS, WordVectors, multi_label_data, outside_texts, toy_data

NUMBERS = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


def train(encoder, data=None, **options):
    return train_classifier(encoder, TrainingTexts(data or toy_data()), **options)


@pytest.fixture(scope="module")
def classifier(model):
    return train(open_texts(model))


def test_messages_are_cleaned_before_they_are_classified(classifier):
    mail = "Dear team,\n\nmy card is lost\n\nBest regards\nKim Example\nHead of Weather"
    assert classifier.predict([mail]) == classifier.predict(["my card is lost"])
    quoted = "> is it sunny\n\nmy card is lost"
    assert classifier.predict([quoted]) == classifier.predict(["my card is lost"])


def test_a_prediction_ranks_all_intents(classifier):
    for found in classifier.predict(["my card is lost", "is it sunny"]):
        names, values = zip(*found.ranking, strict=True)
        assert sorted(names) == sorted(classifier.labels)
        assert list(values) == sorted(values, reverse=True)
        assert sum(values) == pytest.approx(1.0, abs=1e-5)
        assert found.labels == names[:1]
        assert found.out_of_scope is None
    with pytest.raises(InputError, match="text 2 is blank"):
        classifier.predict(["x", "  "])
    assert classifier.predict([]) == []
    with pytest.raises(InputError, match="the label 'new'"):
        evaluate(classifier, IntentData(("a",), (("new",),)))
    assert evaluate(train(WordVectors(64)), toy_data(seed=1)).accuracy.value > 0.85


def test_one_text_in_place_of_a_list_is_refused(classifier):
    data = IntentData(("a",), (("weather",),))
    for wrong in ("my card is lost", None, 3, [1]):
        for function in (classifier.predict, classifier.vectors, lambda texts: evaluate(classifier, data, texts)):
            with pytest.raises(InputError, match="give a list of texts, such as"):
                function(wrong)
    for made in (
        lambda: IntentData("abc", (("a",), ("b",), ("c",))),
        lambda: TrainingTexts(data, oos_texts="hello"),
        lambda: TrainingTexts(data, data, valid_oos_texts="hello"),
    ):
        with pytest.raises(InputError, match="give a list of texts, such as"):
            made()
    with pytest.raises(InputError, match=r"give the labels of each text in a tuple, such as \('weather',\)"):
        IntentData(("a", "b"), ("weather", "card_lost"))


def test_a_classifier_shows_itself_in_a_line_and_a_table(classifier):
    shown = replace(classifier, rejection=Rejection("energy", -1.0))
    facts = "intents=4, encoder='.*', size=[0-9]+, head='Logistic', multi_label=False, refuses='energy above -1'"
    assert re.fullmatch(rf"IntentClassifier\({facts}\)", repr(shown))
    assert "<th>intents</th><td>4</td>" in shown._repr_html_()
    shown = replace(classifier, rejection=Rejection("probability", 0.0010114))
    assert "refuses='highest probability below 0.99899'" in repr(shown)


def test_several_intents_per_text():
    found = train(WordVectors(64), multi_label_data(), multi_label=True)
    new = multi_label_data(80, seed=1)
    score = evaluate(found, new)
    assert score.accuracy.value > 0.6
    assert score.micro_f1 > 0.85
    both, none = found.predict(["weather forecast rain and euro exchange rate", "please can you"])
    assert set(both.labels) == {"weather", "exchange_rate"}
    assert none.labels == ()


@pytest.fixture
def made(classifier, tmp_path):
    """The folder of the classifier, which here refuses some texts."""
    save_classifier(replace(classifier, rejection=Rejection("distance", 0.5)), tmp_path / "made")
    return tmp_path / "made"


def test_a_folder_gives_the_same_answers(classifier, made):
    opened, texts = load_classifier(made), toy_data(seed=3).texts
    assert opened.predict(texts) == replace(
        classifier, rejection=Rejection("distance", 0.5)
    ).predict(texts)
    assert opened.trained == classifier.trained
    assert {path.name for path in made.iterdir()} == {CONFIG, WEIGHTS, "README.md"}
    card = (made / "README.md").read_text()
    assert classifier.encoder.fingerprint in card
    assert "Out of scope: texts whose distance is above 0.5." in card


def test_a_folder_says_which_probability_is_refused(classifier, tmp_path):
    refusing = replace(classifier, rejection=Rejection("probability", 0.001010536962))
    save_classifier(refusing, tmp_path / "made")
    card = (tmp_path / "made" / "README.md").read_text()
    assert "Out of scope: texts whose highest probability is below 0.99898946." in card
    assert load_classifier(tmp_path / "made").rejection == refusing.rejection


@pytest.mark.parametrize(
    ("score", "threshold", "words"),
    [
        ("probability", 0.001010536962, ("highest probability", "below 0.998989")),
        ("probability", 0.4, ("highest probability", "below 0.6")),
        ("probability", 1.25e-7, ("highest probability", "below 0.999999875")),
        ("probability", -0.5, ("highest probability", "below 1.5")),
        ("energy", -3.446103, ("energy", "above -3.446")),
        ("distance", 0.65682781, ("distance", "above 0.6568")),
    ],
)
def test_a_rejection_is_told_as_it_is_read(score, threshold, words):
    assert refused_words(score, threshold, 4) == words


def test_classifier_and_model_may_move_together_or_apart(model, tmp_path):
    first = tmp_path / "first"
    shutil.copytree(model, first / "model")
    save_classifier(train(open_texts(str(first / "model"))), first / "made")
    first.rename(tmp_path / "second")
    assert load_classifier(tmp_path / "second" / "made").labels == toy_data().names
    shutil.move(tmp_path / "second" / "made", tmp_path / "alone")
    shutil.move(tmp_path / "second" / "model", tmp_path / "elsewhere")
    with pytest.raises(InputError, match="REJOINDER_MODEL"):
        load_classifier(tmp_path / "alone")
    load_classifier(tmp_path / "alone", [str(tmp_path / "elsewhere")])


def test_the_precision_of_training_is_that_of_use(model, tmp_path):
    trained, texts = train(open_texts(model, "r", "int8")), toy_data(seed=4).texts
    save_classifier(trained, tmp_path / "made")
    opened = load_classifier(tmp_path / "made")
    assert opened.encoder.precision == trained.encoder.precision == "int8"
    np.testing.assert_array_equal(opened.vectors(texts), trained.vectors(texts))


def test_another_encoder_is_refused(made, model, tmp_path):
    shutil.copytree(model, tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps(signed(config | {"max_length": 7})))
    with pytest.raises(InputError, match="trained on an encoder other than"):
        load_classifier(made, [str(tmp_path / "other")])
    with pytest.raises(InputError, match="1 encoders, but 2"):
        load_classifier(made, [model, model])


def test_damage_is_named(made):
    config = json.loads((made / CONFIG).read_text())
    for change, said in (
        ({"kind": "x"}, "is not a classifier"),
        ({"format": 9}, "update rejoinder"),
        ({"labels": ["one"]}, "does not fit"),
        ({"settings": {"kind": "forest"}}, "kind"),
        *(
            ({"encoders": [wrong]}, "is damaged")
            for wrong in ({}, {"size": []}, {"vectors": 1.5}, {"precision": {}})
        ),
        ({"rejection": {"score": "x"}}, "is damaged"),
        ({"files": {}}, "is damaged"),
    ):
        (made / CONFIG).write_text(json.dumps(signed(config | change)))
        with pytest.raises(InputError, match=said):
            load_classifier(made)


def test_what_was_altered_is_refused(made, tmp_path):
    with (made / WEIGHTS).open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match=r"classifier\.safetensors was altered"):
        load_classifier(made)
    (made / CONFIG).write_text((made / CONFIG).read_text().replace("logistic", "logistik"))
    with pytest.raises(InputError, match=r"config\.json was altered"):
        load_classifier(made)
    with pytest.raises(InputError, match="is not a classifier"):
        load_classifier(tmp_path)


def test_several_encoders_count_the_same_and_come_back(model, tmp_path):
    texts = ["lost card", "weather"]
    first, h, both = (open_texts(model, kind) for kind in ("r", "h", "both"))
    joined = concatenate([first, h])
    assert (first.size, h.size, both.size, joined.size) == (64, 24, 88, 88)
    parts = np.hstack([unit_rows(first.encode(texts)), h.encode(texts)])
    for each in (joined, both):
        np.testing.assert_allclose(each.encode(texts), parts, atol=1e-6)
    np.testing.assert_array_equal(first.encode([]), np.zeros((0, 64)))
    for name, vectors, said in (
        (model, "x", "allowed are r, h, both"),
        ("mini", "r", "minilm, use, e5"),
    ):
        with pytest.raises(InputError, match=said):
            open_texts(name, vectors)
    assert joined.fingerprint != first.fingerprint
    trained = train(joined)
    save_classifier(trained, tmp_path / "made")
    assert load_classifier(tmp_path / "made").predict(["lost card"]) == trained.predict(
        ["lost card"]
    )


@pytest.mark.parametrize("where", ["train", "valid"])
def test_texts_out_of_scope_choose_a_threshold(where):
    outside, valid = outside_texts(), toy_data(seed=1)
    texts = TrainingTexts(
        toy_data(), *((None, outside) if where == "train" else (valid, (), outside))
    )
    found = train_classifier(WordVectors(256), texts)
    assert found.rejection is not None
    test = evaluate(found, toy_data(seed=2), outside_texts(seed=1)).out_of_scope
    assert test.auroc > 0.9
    assert min(test.recall, test.in_scope_accuracy) > 0.6
    assert all(bool(each.labels) is not each.out_of_scope for each in found.predict(outside))


def test_texts_out_of_scope_are_cleaned_as_those_that_are_classified():
    plain = outside_texts()
    mails = [f"Dear team,\n\n{text}\n\nBest regards\nKim\n\n> my card is lost" for text in plain]
    by_plain, by_mails = (
        train_classifier(WordVectors(256), TrainingTexts(toy_data(), oos_texts=tuple(outside))) for outside in (plain, mails)
    )
    assert by_mails.rejection == by_plain.rejection
    test = toy_data(seed=1)
    assert evaluate(by_plain, test, mails).out_of_scope == evaluate(by_plain, test, plain).out_of_scope


def test_without_such_texts_a_share_may_be_refused():
    assert train(WordVectors(256), toy_data(40)).rejection is None
    found = train(WordVectors(256), toy_data(40), reject=0.1)
    assert found.rejection is not None
    refused = np.mean([p.out_of_scope for p in found.predict(toy_data(40, seed=1).texts)])
    assert 0.02 < refused < 0.3


def one_text_of(data, topics):
    """The data with only the first text of these topics."""
    names = [name for (name,) in data.labels]
    return data.rows([n for n, name in enumerate(names) if name not in topics or n == names.index(name)])


def test_an_intent_with_one_text_leaves_the_threshold_to_the_others():
    """Without it a fold does not know the intent, so its score says nothing of texts in scope."""
    recall = []
    for topics in ((), ("weather",)):
        texts = TrainingTexts(one_text_of(toy_data(20), topics)).with_background()
        found = train_classifier(WordVectors(256), texts)
        assert found.trained["rejection_texts"] == 80 - 20 * len(topics)
        recall.append(evaluate(found, toy_data(seed=2), outside_texts(40, 1)).out_of_scope.recall)
    assert recall[1] > recall[0] - 0.1


@pytest.mark.parametrize("is_background", [True, False])
def test_texts_out_of_scope_alone_choose_if_no_intent_has_two_texts(is_background):
    texts = TrainingTexts(one_text_of(toy_data(), TOPICS), None, outside_texts(50))
    found = train_classifier(WordVectors(256), texts.with_background() if is_background else texts)
    assert (found.rejection.score, found.trained["rejection_texts"]) == ("distance", 0)
    refused = [each.out_of_scope for each in found.predict((texts.with_background() if is_background else texts).oos_texts)]
    assert np.mean(refused) == pytest.approx(0.9, abs=0.02)
    assert not any(each.out_of_scope for each in found.predict(texts.train.texts))


def random_labels(each):
    """Texts whose labels say nothing: each intent has two of them."""
    texts = toy_data(each).texts
    labels = tuple((f"intent {number % (len(texts) // 2)}",) for number in range(len(texts)))
    return IntentData(texts, labels)


@pytest.mark.parametrize("outside", ["far", "inside"])
def test_no_threshold_refuses_most_of_the_training_texts(outside):
    """Labels at random: no held-out text is right, so refusing all would be the best threshold."""
    data = random_labels(6)
    oos_texts = outside_texts(4) if outside == "far" else tuple(text.upper() for text in data.texts)
    found = train_classifier(WordVectors(256), TrainingTexts(data, None, oos_texts))
    assert found.rejection.score == "distance"
    assert (found.trained["rejection_texts"], found.trained["rejection_chosen_by"]) == (24, BY_OUTSIDE_MISFIT)
    assert np.mean([each.out_of_scope for each in found.predict(data.texts)]) <= 0.05


@pytest.mark.parametrize("is_background", [True, False])
@pytest.mark.parametrize(("each", "count"), [(2, 0), (4, 0), (5, 20), (12, 48)])
def test_fewer_than_twenty_held_out_texts_choose_no_threshold(each, count, is_background):
    texts = TrainingTexts(toy_data(each), None, outside_texts(50))
    found = train_classifier(WordVectors(256), texts.with_background() if is_background else texts)
    chosen_by = BY_HELD_OUT if count else BY_OUTSIDE_FEW
    assert (found.trained["rejection_texts"], found.trained["rejection_chosen_by"]) == (count, chosen_by)


def test_few_texts_are_not_refused_for_texts_out_of_scope_that_are_like_them():
    data = random_labels(2)
    found = train_classifier(WordVectors(256), TrainingTexts(data, None, tuple(text.upper() for text in data.texts)))
    assert found.trained["rejection_chosen_by"] == BY_OUTSIDE_FEW
    assert np.mean([each.out_of_scope for each in found.predict(data.texts)]) <= 0.05


@given(st.lists(st.floats(0, 2, width=32), min_size=1, max_size=60), st.lists(st.floats(0, 2, width=32), min_size=1, max_size=60))
def test_a_threshold_of_texts_out_of_scope_refuses_few_training_texts(oos, train):
    oos, train = np.array(oos, np.float32), np.array(train, np.float32)
    threshold = reject_outside(oos, train).threshold
    assert (train > threshold).mean() <= 0.05
    if train.max() < oos.min():
        assert (oos >= threshold).mean() >= 0.9 - 1 / len(oos)


def test_a_share_needs_texts_that_can_be_held_out():
    few = one_text_of(toy_data(), TOPICS)
    for data in (few, repeat(few, 6)):
        said = r"reject=0.1 needs 5 different texts of intents with two or more, given 0"
        with pytest.raises(InputError, match=said):
            train(WordVectors(), data, reject=0.1)


def repeat(data, times):
    """The data with each text that often, written in two ways."""
    copies = [data.texts, tuple(text.title() for text in data.texts)]
    texts = [text for number in range(times) for text in copies[number % 2]]
    return IntentData(tuple(texts), data.labels * times)


def test_copies_of_texts_leave_the_threshold_as_it_is():
    """A text whose copy was trained on is no sign of how texts in scope look."""
    tests = toy_data(60, seed=5).texts
    shares = []
    for times in (1, 2, 5):
        texts = TrainingTexts(repeat(toy_data(20), times)).with_background()
        found = train_classifier(WordVectors(256), texts, Logistic(strength=30.0 / times))
        assert found.trained["rejection_texts"] == 80 * times
        shares.append(np.mean([each.out_of_scope for each in found.predict(tests)]))
    assert max(shares) - min(shares) < 0.03


def test_copies_do_not_make_few_texts_many():
    for times in (1, 3):
        texts = TrainingTexts(repeat(toy_data(4), times)).with_background()
        found = train_classifier(WordVectors(256), texts)
        assert (found.rejection.score, found.trained["rejection_texts"]) == ("distance", 0)


@given(
    st.lists(st.tuples(st.integers(-4, 4).map(float), st.booleans()), min_size=1, max_size=15),
    NUMBERS,
)
def test_no_threshold_is_better_than_the_best(rows, outside):
    inside, right, out = (
        np.array([s for s, _ in rows]),
        np.array([r for _, r in rows]),
        np.array(outside),
    )

    def worth(threshold):
        return float((right & (inside <= threshold)).mean() + (out > threshold).mean()) / 2

    threshold, value = best_threshold(inside, right, out)
    assert value == pytest.approx(worth(threshold))
    assert value >= max(worth(t) for t in np.arange(-5.5, 6, 0.5)) - 1e-12


def test_scores_by_hand():
    logits = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [800.0, 0.0, -800.0]], dtype=np.float32)
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=np.float32)
    four = Encoded(
        tuple("abcd"), np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], np.float32), np.eye(4, dtype=np.float32)
    )
    probability, energy, distance = scores(logits, Centroids.of(four).distances(vectors)).T
    top = np.exp(2) / (np.exp(2) + 2)
    np.testing.assert_allclose(probability, [1 - top, 2 / 3, 0], atol=1e-9)
    np.testing.assert_allclose(energy, [-np.log(np.exp(2) + 2), -np.log(3), -800])
    np.testing.assert_allclose(distance, [0, 0, 0.2], atol=1e-6)


def test_centroids_do_not_depend_on_how_often_an_intent_occurs():
    generator = np.random.default_rng(0)
    vectors = unit_rows(generator.standard_normal((6, 4)).astype(np.float32))
    targets = np.eye(2, dtype=np.float32)[[0, 0, 0, 0, 1, 1]]
    found = Centroids.of(Encoded(tuple("abcdef"), vectors, targets))
    means = np.stack([vectors[:4].mean(axis=0), vectors[4:].mean(axis=0)]) - vectors.mean(axis=0)
    np.testing.assert_allclose(found.directions, unit_rows(means), atol=1e-5)


def test_the_better_score_is_chosen():
    inside = np.array([[0.1, 1.0, 5.0], [0.2, 5.0, 5.0], [0.3, 2.0, 5.0]])
    outside = np.array([[0.6, 0.0, 5.0], [0.25, 3.0, 5.0]])
    # the third is taken for another
    logits, classes = np.eye(2, dtype=np.float32)[[0, 1, 0]], np.array([0, 1, 1])
    rejection = choose_rejection(HeldOut(logits, inside, outside), classes)
    assert rejection == Rejection("probability", pytest.approx(0.225))
