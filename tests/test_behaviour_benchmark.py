"""What `benchmarks/behaviour.py` counts, on models whose behaviour is known."""

import numpy as np
import pytest

from behaviour import parroting, subject_changes

DIALOGUES = [[f"{subject} {number}" for number in range(6)] for subject in ("cats", "trains", "tea", "rain")]
WORDS = sorted({word for dialogue in DIALOGUES for message in dialogue for word in message.split()})


class Words:
    """Counts words: of the newest message, or of all messages, the earlier ones twice."""

    def __init__(self, *, whole):
        self.whole = whole

    def encode_responses(self, texts):
        return np.array([[text.split().count(word) for word in WORDS] for text in texts], dtype=np.float32)

    def encode_contexts(self, contexts):
        return np.stack([self.encode_responses([context[-1]])[0]
                         + (2 * self.encode_responses(context[:-1]).sum(axis=0) if self.whole else 0)
                         for context in contexts])


def test_a_model_that_looks_for_equal_words_parrots():
    said, answers = parroting(Words(whole=False), DIALOGUES, 4, 100)
    assert said == answers == 12  # three of each dialogue's messages are answered


@pytest.mark.parametrize(("whole", "right"), [(True, 0), (False, 3)])
def test_a_model_that_reads_the_whole_clings_to_the_old_subject(whole, right):
    assert subject_changes(Words(whole=whole), DIALOGUES, 10) == (right, 3, 3)
