"""What `benchmarks/behaviour.py` counts, on models whose behaviour is known."""

import numpy as np
import pytest

from behaviour import best_of, chat_of, parroting, subject_changes
from rejoinder.encoders.protocol import DualEncoder
from tests.retrieval.conftest import HashEncoder

DIALOGUES = [
    [f"{subject} {number}" for number in range(6)] for subject in ("cats", "trains", "tea", "rain")
]
TEXTS = [message for dialogue in DIALOGUES for message in dialogue]
WORDS = sorted({word for dialogue in DIALOGUES for message in dialogue for word in message.split()})


class Words(DualEncoder):
    """Counts words: of the newest message, or of all messages, the earlier ones twice."""

    name = fingerprint = ""
    subject_threshold = 0.0

    def __init__(self, *, whole):
        self.whole = whole

    def encode_responses(self, texts):
        return np.array(
            [[text.split().count(word) for word in WORDS] for text in texts], dtype=np.float32
        )

    def encode_contexts(self, contexts):
        return np.stack(
            [
                self.encode_responses([context[-1]])[0]
                + (2 * self.encode_responses(context[:-1]).sum(axis=0) if self.whole else 0)
                for context in contexts
            ]
        )


def test_a_model_that_looks_for_equal_words_parrots():
    said, answers = parroting(best_of(Words(whole=False), TEXTS), DIALOGUES)
    assert said == answers == 12  # three of each dialogue's messages are answered


def test_as_in_chat_it_parrots_a_single_word_and_that_once():
    assert parroting(best_of(HashEncoder(), TEXTS), DIALOGUES) == (12, 12)
    assert parroting(chat_of(HashEncoder(), TEXTS), DIALOGUES) == (0, 12), "of two words each"
    shorter = [[message.replace(" ", "") for message in dialogue] for dialogue in DIALOGUES]
    texts = [message for dialogue in shorter for message in dialogue]
    assert parroting(chat_of(HashEncoder(), texts), shorter) == (4, 12), (
        "the first of three answers in each dialogue"
    )


@pytest.mark.parametrize(("whole", "right"), [(True, 0), (False, 3)])
def test_a_model_that_reads_the_whole_clings_to_the_old_subject(whole, right):
    model = Words(whole=whole)
    assert subject_changes(model, DIALOGUES, 10) == (right, right, 3, 3)
    model.subject_threshold = 100.0  # of products
    assert subject_changes(model, DIALOGUES, 10) == (right, 3, 3, 3)
