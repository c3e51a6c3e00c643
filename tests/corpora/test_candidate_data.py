"""The readers of sets with candidates on the real files, against the counts that their publishers give."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rejoinder.baselines.keywords import BM25
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.convai2 import Convai2Settings, read_convai2
from rejoinder.corpora.readers.semeval import SemevalSettings, read_semeval
from rejoinder.evaluation.ranking import evaluate

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif("REJOINDER_DATA" not in os.environ, reason="REJOINDER_DATA is not set"),
]
EVAL = Path(os.environ.get("REJOINDER_DATA", "")) / "eval"
SEMEVAL = EVAL / "semeval2016"


@pytest.mark.parametrize("side", ["self", "other"])
def test_convai2_has_7801_responses_in_1000_dialogues(side):
    reading = Reading()
    path = EVAL / "convai2_valid" / f"valid_{side}_original_no_cands.txt"
    examples = list(read_convai2(path, reading, Convai2Settings()))
    assert len(examples) == 7_801
    assert sum(len(example.context) == 2 for example in examples) == 1_000  # the persona and the first message
    assert (reading.bad_lines, reading.blank_messages, reading.without_reply, reading.dropped) == (0, 0, 0, {})


def test_convai2_with_drawn_candidates_can_be_ranked():
    path = EVAL / "convai2_valid" / "valid_self_original_no_cands.txt"
    examples = list(read_convai2(path, Reading(), Convai2Settings(draw=19)))
    result = evaluate(BM25(), examples[:1_000])
    assert (result.given_candidates, result.candidates, result.fewest_candidates) == (True, 20, 20)
    assert 0.15 < result.recall[1].value < 0.6


@pytest.mark.parametrize(
    ("name", "threads", "repeated", "good", "others"),
    [("dev", 500, 2_560, 818, 1_209 + 413), ("train-part2", 670, 2_910, 1_364, 1_777 + 649)],
)
def test_semeval_2016_has_the_comments_of_subtask_a(name, threads, repeated, good, others):
    """README 3.2 of the data, statistics with respect to the related question."""
    reading = Reading(part="train")
    examples = list(read_semeval(SEMEVAL / f"SemEval2016-Task3-CQA-QL-{name}.xml.zst", reading, SemevalSettings()))
    assert len(examples) == good
    assert reading.lines == threads
    assert reading.dropped == {"comments of repeated questions": repeated, "comments not labelled Good": others}


def test_semeval_2016_has_each_question_once_outside_training():
    path = SEMEVAL / "SemEval2016-Task3-CQA-QL-dev.xml.zst"
    examples = list(read_semeval(path, Reading(part="test"), SemevalSettings()))
    assert len(examples) == len({example.context for example in examples}) == 211
    assert evaluate(BM25(), examples).recall[1].value > 0.2
    lists = list(read_semeval(path, Reading(part="test"), SemevalSettings(candidates="thread")))
    result = evaluate(BM25(), lists)
    assert (result.given_candidates, result.examples, result.candidates) == (True, 209, 10)
