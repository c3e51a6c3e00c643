"""`benchmarks/desk.py` at a small size: learning helps, wrong clicks and kills do no harm."""

import random
import sys

import numpy as np
import pytest

import desk
from rejoinder.retrieval.index import Index
from tests.logs import log_of
from tests.retrieval.test_examples import WordEncoder


def test_chats_are_the_same_each_time_and_use_other_words():
    made = desk.made_up(300)
    assert made == desk.made_up(300)
    assert len(made.replies) == len(desk.THINGS) * len(desk.ACTIONS)
    assert len({right for _, right in made.chats}) > 50


def test_agents_take_the_right_reply_and_click_wrongly_at_times():
    made = desk.made_up(10)
    right = made.chats[0][1]
    others = [at for at in range(6) if at != right][:4]
    acts = [desk.act(made, [*others, right], right, random.Random(seed)) for seed in range(2000)]
    assert np.mean([act["chosen"] != right for act in acts]) == pytest.approx(desk.WRONG_CLICKS, abs=0.01)
    own = [desk.act(made, others, right, random.Random(seed)) for seed in range(500)]
    assert 0.4 < np.mean(["Thanks for waiting" in act.get("text", "") for act in own]) < 0.6


def test_a_desk_is_better_after_learning(tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "AGENTS", 3)
    made = desk.made_up(300)
    encoder = WordEncoder()
    index = Index.build(encoder, made.replies, tmp_path / "index")
    before = desk.ranks(index, made)
    killed = desk.keep(made, encoder, tmp_path, 3) if sys.platform.startswith("linux") else 0
    index = Index.open(tmp_path / "index", encoder)
    after = desk.ranks(index, made)
    assert killed <= 3
    assert len((tmp_path / "said").read_text().splitlines()) == 300 <= len(log_of(index))
    assert np.mean([rank == 0 for rank in after]) > np.mean([rank == 0 for rank in before]) + 0.15
