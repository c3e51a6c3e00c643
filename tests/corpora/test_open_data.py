"""The real conversations of $REJOINDER_DATA/open: every file is read, and the counts are those of its table."""

import os
from pathlib import Path

import pytest

from rejoinder.corpora.corpus import NoSettings
from rejoinder.corpora.splits import conversation_thread
from rejoinder.corpora.forms.formats import DIALOGUES
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.dialogues.chitchat import packaged_file, read_chitchat
from rejoinder.corpora.readers.dialogues.convai2 import Convai2Settings, read_convai2
from rejoinder.corpora.readers.pairs.semeval import SemevalSettings, read_semeval
from rejoinder.encoders.words.keywords import BM25
from rejoinder.evaluation.ranking import evaluate
from workshop.corpus.build import read_dialogues

OPEN = Path(os.environ.get("REJOINDER_DATA", "nowhere")) / "open"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif("REJOINDER_DATA" not in os.environ, reason="REJOINDER_DATA is not set"),
]

# Dialogues and pairs of each file.
COUNTS = {
    "gutenberg_dialogue": (191_058, 1_021_307),
    "crd3_critical_role": (159, 395_493),
    "changelog_podcasts": (1_981, 355_149),
    "self_dialogue": (24_138, 349_274),
    "schema_guided_dialogue": (17_193, 295_055),
    "byu_chitchat": (4_017, 131_548),
    "qmsum_meetings": (232, 120_120),
    "gutenberg_plays": (2_064, 102_045),
    "gutenberg_dialogue_singlequote": (21_392, 87_688),
    "synthetic_persona_chat_valtest": (1_962, 52_189),
    "topical_chat_devtest": (2_156, 44_747),
    "ubuntu_irc_gold": (16_344, 42_411),
    "dstc11_track5_val": (3_733, 29_675),
    "multiwoz21_valtest": (1_999, 27_475),
    "persuasion_for_good": (1_017, 19_915),
    "taskmaster4_coffee": (3_710, 10_205),
    "ms_personality_chat": (1_892, 1_892),
}


@pytest.mark.parametrize("name", COUNTS)
def test_dialogues_and_pairs(name):
    reading = Reading(history=0)
    examples = DIALOGUES.read(OPEN / f"{name}.jsonl.zst", reading, NoSettings())
    pairs = sum(example.source == name for example in examples)
    assert (reading.lines, pairs) == COUNTS[name]
    assert (reading.bad_lines, reading.blank_messages, reading.without_reply) == (0, 0, 0)


def test_every_file_is_in_the_table():
    assert {path.name.removesuffix(".jsonl.zst") for path in OPEN.glob("*.jsonl.zst")} == set(COUNTS)


def test_the_packaged_chitchat_is_matched_by_its_threads():
    """All of the copies, though in seven of them one joins messages which the other keeps apart."""
    packaged = {example.thread for example in read_chitchat(packaged_file(), Reading())}
    dialogues = read_dialogues(OPEN / "byu_chitchat.jsonl.zst", Reading())
    copied = {conversation_thread(dialogue.turns) for dialogue in dialogues}
    assert len(copied) == 3_995
    assert copied <= packaged


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


@pytest.mark.parametrize(
    ("name", "threads", "repeated", "good", "others"),
    [("dev", 500, 2_560, 818, 1_209 + 413), ("train-part2", 670, 2_910, 1_364, 1_777 + 649)],
)
def test_semeval_2016_has_the_comments_of_subtask_a(name, threads, repeated, good, others):
    """README 3.2 of the data, statistics with respect to the related question."""
    reading = Reading(part="train")
    examples = list(read_semeval(SEMEVAL / f"SemEval2016-Task3-CQA-QL-{name}.xml.zst", reading, SemevalSettings()))
    assert (len(examples), reading.lines) == (good, threads)
    assert reading.dropped == {"comments of repeated questions": repeated, "comments not labelled Good": others}


def test_semeval_2016_has_each_question_once_outside_training():
    path = SEMEVAL / "SemEval2016-Task3-CQA-QL-dev.xml.zst"
    examples = list(read_semeval(path, Reading(part="test"), SemevalSettings()))
    assert len(examples) == len({example.context for example in examples}) == 211
    assert evaluate(BM25(), examples).recall[1].value > 0.2
