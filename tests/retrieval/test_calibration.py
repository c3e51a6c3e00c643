"""How probably the best reply is right: the fit beside scikit-learn's, silence, and calibrations of something else."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from rejoinder.corpora.schema import Example
from rejoinder.errors import BusyError, InputError
from rejoinder.retrieval.calibration import _regression
from rejoinder.retrieval.encoding.confidence import fit_logistic
from rejoinder.retrieval.calibration import CalibratedIndex, calibrate, read_calibration
from rejoinder.retrieval.encoding.confidence import Calibration
from rejoinder.retrieval.index import Index
from rejoinder.stores.address import store_of
from rejoinder.stores.names import CALIBRATION
from rejoinder.retrieval.replies import Reply
from tests.retrieval.conftest import HashEncoder

REPLIES = [f"Reply number {i}." for i in range(30)]


def conversations(replies=REPLIES, wrong=30):
    """What the index answers exactly, and what it cannot answer: every other one wants a reply that is not there."""
    known = [Example(context=("Hi", text), response=text.upper(), thread=text) for text in replies]
    strange = [
        Example(context=(f"Something else, {i}",), response="Not there" if i % 2 else REPLIES[0]) for i in range(wrong)
    ]
    return known + strange


@pytest.fixture
def index(tmp_path, encoder):
    return Index.build(encoder, REPLIES, tmp_path / "index")


@pytest.fixture
def calibrated(index):
    calibrate(index, conversations()).calibration.save(index.store)
    return index


def test_where_scores_tell_right_from_wrong_probabilities_are_near_0_and_1(index):
    seen = []
    fit = calibrate(index, conversations(), progress=seen.append)
    assert (fit.right.tolist(), fit.absent, sum(seen)) == ([True] * 30 + [False] * 30, 15, 60)
    assert fit.probabilities[fit.right].mean() > 0.9 > 0.1 > fit.probabilities[~fit.right].mean()
    assert fit.probabilities[fit.right].min() > 0.7 > 0.3 > fit.probabilities[~fit.right].max()
    fit.calibration.save(index.store)
    assert read_calibration(Index.open(index.store)) == fit.calibration


def test_a_reply_with_a_greeting_and_a_name_around_it_is_the_one_that_was_sent(tmp_path, encoder):
    replies = [f"You will find all about it on page {i}." for i in range(30)]
    index = Index.build(encoder, replies, tmp_path / "index")
    plain = calibrate(index, conversations(replies))
    signed = [
        replace(each, response=f"Hi Tom, {each.response}, Kim") if each.thread else each
        for each in conversations(replies)
    ]
    fit = calibrate(index, signed)
    assert (fit.right.tolist(), fit.absent) == (plain.right.tolist(), plain.absent)
    assert fit.calibration == plain.calibration


def test_a_calibration_waits_for_a_change_which_would_sweep_it_away(calibrated, monkeypatch):
    calibration = read_calibration(calibrated)
    monkeypatch.setattr("rejoinder.stores.store.PATIENCE", 0.1)
    with store_of(calibrated.folder).lock(), pytest.raises(BusyError, match="is being written"):
        calibration.save(calibrated.folder)
    with calibrated.store.lock():
        calibration.save(calibrated.store)
    assert read_calibration(calibrated) == calibration


def test_probabilities_are_those_of_scikit_learn(tmp_path):
    class Noisy(HashEncoder):
        def encode_contexts(self, contexts):
            noise = self.encode_responses([context[0] for context in contexts])
            rows = super().encode_contexts(contexts) + 2 * noise
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    index = Index.build(Noisy(), REPLIES, tmp_path / "index")
    examples = [Example(context=(f"noise {i}", REPLIES[i % 30]), response=REPLIES[i % 30]) for i in range(300)]
    fit = calibrate(index, examples)
    assert 50 < fit.right.sum() < 250, "neither class is rare"
    found = index.search([example.context for example in examples], 2)
    features = StandardScaler().fit_transform([[best.score, best.score - next_.score] for best, next_ in found])
    wanted = LogisticRegression().fit(features, fit.right).predict_proba(features)[:, 1]
    np.testing.assert_allclose(fit.calibration.probabilities(found), wanted, atol=1e-9)
    assert not np.allclose(fit.probabilities, wanted), "what is reported is of conversations that were not fitted"


def test_an_answer_is_given_only_if_it_is_probable(calibrated):
    confident = CalibratedIndex(calibrated)
    known, unknown = confident.answer([[REPLIES[3]], ["What now?"]], 0.8, k=2)
    assert (len(known.replies), known.replies[0].text) == (2, REPLIES[3])
    assert known.confidence > 0.9
    assert unknown.replies == []
    assert unknown.confidence < 0.1
    [only] = confident.answer([[REPLIES[3]]], 0.0, k=1, minimum_score=0.99)
    assert (len(only.replies), only.confidence) == (1, known.confidence)
    said = [REPLIES[3], "x", REPLIES[3]]
    assert confident.answer([said], 0.8, no_repeat=True)[0].replies == [], "the best is left out, the next is unsure"
    with pytest.raises(InputError, match=r"minimum_confidence is 80"):
        confident.answer([["x"]], 80)


def test_one_reply_alone_stands_out_by_nothing_and_none_is_never_right():
    calibration = Calibration(index="", model="", history=None, score_weight=1, gap_weight=9, intercept=0)
    lists = [[], [Reply("a", 0.0, 0, {})], [Reply("a", 1.0, 0, {}), Reply("b", 0.0, 1, {})]]
    assert calibration.probabilities(lists).tolist() == pytest.approx([0, 0.5, 1 / (1 + np.exp(-10))])


def test_as_much_of_a_conversation_is_read_as_for_the_calibration(tmp_path):
    class Reading(HashEncoder):
        def encode_contexts(self, contexts):
            self.read = contexts
            return super().encode_contexts(contexts)

    encoder = Reading()
    index = Index.build(encoder, REPLIES, tmp_path / "index")
    calibrate(index, conversations(), history=0).calibration.save(index.store)
    CalibratedIndex(index).answer([["a", "b"]], 0.5)
    assert encoder.read == [["b"]]


@pytest.mark.parametrize("change", [lambda index: index.add(["New."]), lambda index: index.delete([0])])
def test_a_change_of_the_index_makes_its_calibration_void(calibrated, change):
    confident = CalibratedIndex(calibrated)
    change(calibrated)
    for attempt in (lambda: confident.answer([["x"]], 0.5), lambda: CalibratedIndex(Index.open(calibrated.store))):
        with pytest.raises(InputError, match="of other replies than it has now; calibrate again: rejoinder calibrate"):
            attempt()
    calibrate(calibrated, conversations(REPLIES[1:])).calibration.save(calibrated.store)
    CalibratedIndex(calibrated)


def test_a_compacted_index_gives_the_same_answers_and_keeps_its_calibration(calibrated):
    calibrated.delete([29])
    calibrate(calibrated, conversations(REPLIES[:-1])).calibration.save(calibrated.store)
    before = CalibratedIndex(calibrated).answer([[REPLIES[3]], ["x"]], 0.0)
    calibrated.compact()
    confident = CalibratedIndex(Index.open(calibrated.store, calibrated.encoder))
    assert confident.answer([[REPLIES[3]], ["x"]], 0.0) == before
    calibrated.add(["New."])
    with pytest.raises(InputError, match="of other replies than it has now"):
        CalibratedIndex(calibrated)


def test_a_calibration_of_something_else_is_refused(calibrated, encoder, tmp_path):
    others = {
        "not calibrated; rejoinder calibrate": Index.build(encoder, REPLIES, tmp_path / "bare"),
        "of other replies": Index.build(encoder, REPLIES[1:], tmp_path / "fewer"),
        "of another model": Index.build(HashEncoder("second"), REPLIES, tmp_path / "model"),
    }
    for said, index in others.items():
        if said.startswith("of"):
            shutil.copy(calibrated.folder / CALIBRATION, index.folder)
        with pytest.raises(InputError, match=said):
            CalibratedIndex(index)
    path = calibrated.folder / CALIBRATION
    text = path.read_text()
    for damaged in (text.replace('"intercept": ', '"intercept": 1'), text[:50], "[]", "{}"):
        path.write_text(damaged)
        with pytest.raises(InputError, match=r"is damaged .*calibrate again"):
            read_calibration(calibrated)


def test_an_index_with_a_calibration_is_replaced_as_one_without(calibrated, encoder):
    index = Index.build(encoder, REPLIES, calibrated.store, overwrite=True)
    with pytest.raises(InputError, match="not calibrated"):
        CalibratedIndex(index)


@pytest.mark.parametrize(("examples", "said"), [
    (conversations(wrong=3), "is wrong in 3 of 33"), (conversations(REPLIES[:4]), "is right in 4 of 34"),
    ([], "is right in 0 of 0"),
    ([Example(context=(text,), response=text, thread="one") for text in REPLIES], "is right in 1 of 1"),
])  # fmt: skip
def test_too_few_conversations_are_refused(index, examples, said):
    with pytest.raises(InputError, match=said):
        calibrate(index, examples)
    assert not (index.folder / CALIBRATION).exists()


@pytest.mark.parametrize(("count", "flipped"), [(40, 0.0), (40, 0.2), (3000, 0.1)])
def test_the_regression_of_an_index_is_that_of_scikit_learn(count, flipped):
    rng = np.random.default_rng(count)
    features = rng.normal([0.5, 0.1], [2.0, 0.05], (count, 2))
    right = (features @ [1.0, 3.0] > 0.7) ^ (rng.random(count) < flipped)
    shares = np.where(rng.random(count) < 0.5, 1.0, 0.3)
    theirs = _regression().fit(features, right, logisticregression__sample_weight=shares)
    weights, intercept = fit_logistic(features, right, shares)
    ours = 1 / (1 + np.exp(-(features @ weights + intercept)))
    assert np.allclose(ours, theirs.predict_proba(features)[:, 1], atol=2e-3)
