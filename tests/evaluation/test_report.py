"""Tables, word for word."""

import dataclasses

import numpy as np

from rejoinder.evaluation.bootstrap import Estimate
from rejoinder.evaluation.result import RankingResult
from rejoinder.evaluation.report import Row, markdown, plain

RESULT = RankingResult(
    recall={1: Estimate(0.275, 0.2604, 0.29), 10: Estimate(0.5, 0.48, 0.52)},
    mrr=Estimate(0.3456, 0.33, 0.36),
    examples=12300,
    candidates=100,
    fewest_candidates=100,
    given_candidates=False,
    dropped=42,
    ambiguous=0,
    unit="thread",
    units=1234,
    resamples=1000,
    seed=0,
    fingerprint="f",
    seconds=2.34,
    ranks=np.array([1, 5, 2, 1]),
    unit_of=np.array([0, 0, 1, 1]),
)
OTHER = dataclasses.replace(
    RESULT,
    recall={1: Estimate(0.1, 0.0, 0.2)},
    candidates=10,
    fewest_candidates=5,
    given_candidates=True,
)
BETTER = dataclasses.replace(RESULT, ranks=np.array([1, 1, 2, 1]))


def test_markdown_has_a_line_for_each_model_and_data_set():
    lines = markdown([Row("bm25", "chat", RESULT), Row("a|b", "faq", OTHER)]).splitlines()
    assert (
        lines[0] == "| model | data | R@1 | R@10 | MRR | examples | candidates | unit | seconds |"
    )
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    figures = "27.5 [26.0, 29.0] | 50.0 [48.0, 52.0] | 34.6 [33.0, 36.0] | 12,300 | 100 | 1,234 threads | 2.3"
    assert lines[2] == f"| bm25 | chat | {figures} |"
    assert lines[3].startswith("| a\\|b | faq | 10.0 [0.0, 20.0] |  | ")
    assert "| 5-10 |" in lines[3]


SHOWN = """\
chat
12,300 examples, 100 candidates each (1-of-100); 42 left over
in %, with 95% intervals: 1,000 resamples of 1,234 threads
gain: R@1 above bm25, paired example by example
       bm25              runs/small/model
R@1    27.5  26.0-29.0   27.5  26.0-29.0
R@10   50.0  48.0-52.0   50.0  48.0-52.0
MRR    34.6  33.0-36.0   34.6  33.0-36.0
gain                     +25.0  +0.0 to +50.0
time   2.3 s             2.3 s

faq
12,300 examples, 5-10 candidates each (given by the data); 42 left over
in %, with 95% intervals: 1,000 resamples of 1,234 threads
       bm25
R@1    10.0  0.0-20.0
MRR    34.6  33.0-36.0
time   2.3 s

R@1 side by side
                   chat              faq
bm25               27.5  26.0-29.0   10.0  0.0-20.0
runs/small/model   27.5  26.0-29.0
"""


def test_plain_text_has_a_table_for_each_data_set_and_a_column_for_each_model():
    text = plain(
        [
            Row("bm25", "chat", RESULT),
            Row("bm25", "faq", OTHER),
            Row("runs/small/model", "chat", BETTER),
        ]
    )
    assert text == SHOWN


def test_names_are_printed_as_they_are_and_a_narrow_terminal_keeps_every_number():
    # Rich reads [brackets] as markup and :words: as emoji, unless told otherwise.
    text = plain([Row("models/[red]v2[/red]", "data/:smile:/[x]", RESULT)])
    assert "models/[red]v2[/red]" in text
    assert "data/:smile:/[x]" in text
    assert all(
        "27.5  26.0-29.0" in plain([Row("bm25", "chat", RESULT)], width) for width in (30, 60, 80)
    )
