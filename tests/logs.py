"""The log of an index, as tests write and read it."""

from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.outcomes import Recorder


def log_of(index):
    return FeedbackLog(index.store)


def recorder(index):
    return Recorder(index, log_of(index))
