"""The README's Python, on the bundled weights: it runs, and the answers are right."""

import re
from pathlib import Path

import rejoinder

README = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_first_block_prints_what_it_says(capsys):
    exec(BLOCKS[0], {})
    assert capsys.readouterr().out.strip() == BLOCKS[0].rpartition("# ")[2].strip()


def test_the_best_reply_of_the_second_block_is_the_first():
    [call] = [line for line in BLOCKS[1].splitlines() if line.startswith("model.score")]
    scores = eval(call, {"model": rejoinder.load("convert-small")})
    assert scores.shape == (1, 2)
    assert scores[0].argmax() == 0
