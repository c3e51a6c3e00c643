"""The probes find a bias that is there, and none where there is none."""

import json
import sys

import numpy as np
import pytest

import rejoinder
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import InputError
from workshop import probe

SIDES = np.eye(2, dtype=np.float32)


class TwoKinds(DualEncoder):
    """Contexts and replies are of one kind or the other; a context scores 1 with replies of its kind, else 0."""

    name = fingerprint = ""
    subject_threshold = 0.0

    def __init__(self, context_is, reply_is):
        self.context_is, self.reply_is = context_is, reply_is

    def encode_contexts(self, contexts):
        return np.stack([SIDES[int(self.context_is(context[-1]))] for context in contexts])

    def encode_responses(self, responses):
        return np.stack([SIDES[int(self.reply_is(text))] for text in responses])

    def score(self, contexts, candidates):
        pairs = zip(self.encode_contexts(contexts), candidates, strict=True)
        return np.stack([self.encode_responses(texts) @ vector for vector, texts in pairs])


def test_a_group_that_draws_insults_is_told_from_the_others():
    rows = probe.probe_groups(
        TwoKinds(lambda text: "Turks" in text, lambda text: text in probe.INSULTING)
    )
    found = {row["group"]: (row["insulting_first"], row["lead"]) for row in rows}
    assert found.pop("Turks") == (len(probe.TEMPLATES), 1.0)
    assert set(found.values()) == {(0, -1.0)}
    assert len(rows) == sum(map(len, probe.GROUPS.values()))


def test_jobs_of_women_and_of_men():
    rows = probe.probe_jobs(TwoKinds(lambda text: "nurse" in text, lambda text: " she " in text))
    found = {row["job"]: row["she_above_he"] for row in rows}
    assert found.pop("nurse") == 1.0
    assert set(found.values()) == {-1.0}


def test_swear_words_among_the_first_replies():
    candidates = [f"fine {number}" for number in range(17)] + [
        "You idiot!",
        "what a load of bullshit",
        "Shut up.",
    ]
    model = TwoKinds(
        lambda text: "Muslims" in text, lambda text: probe.OFFENSIVE.search(text) is not None
    )
    found = probe.probe_candidates(model, candidates, top=3)
    assert found["all candidates"] == {"replies": 20, "share": pytest.approx(3 / 20)}
    shares = {name: row["share"] for name, row in found["by_context"].items()}
    assert shares.pop("religion") == pytest.approx(1 / len(probe.GROUPS["religion"]))
    assert set(shares.values()) == {0.0}
    with pytest.raises(InputError, match="20 different candidates, but the first 20 are looked at"):
        probe.probe_candidates(model, candidates, top=20)


def test_whole_words_count():
    texts = [
        "you IDIOTS",
        "bull shit",
        "He fucked up",
        "a class in the grass",
        "dumbbells",
        "hello",
        "Scunthorpe",
    ]
    assert [text for text in texts if probe.OFFENSIVE.search(text)] == texts[:3]


def test_the_command_writes_json_and_tables(tmp_path, monkeypatch, capsys):
    model = TwoKinds(lambda text: "nurse" in text or "Jews" in text, lambda text: " she " in text)
    monkeypatch.setattr(rejoinder, "load", lambda _: model, raising=False)
    (tmp_path / "replies.txt").write_text(
        "\n".join(["Hello.", "Hi.", "Hello.", "Bye.", "Shut up."])
    )
    output = tmp_path / "probe.json"
    command = [
        "probe",
        "m",
        "--candidates",
        str(tmp_path / "replies.txt"),
        "--top",
        "2",
        "-o",
        str(output),
    ]
    monkeypatch.setattr(sys, "argv", command)
    probe.main()
    found = json.loads(output.read_text())
    assert found["candidates"]["all candidates"]["replies"] == 4, "equal texts count once"
    shown = capsys.readouterr().out
    assert shown == probe.markdown(found)
    assert "| religion | 0 of 30 | " in shown
    assert "Highest: nurse (+1.00)" in shown
    monkeypatch.setattr(sys, "argv", [*command[:-1], str(tmp_path / "other.json"), "--top", "9"])
    with pytest.raises(InputError, match="4 different candidates"):
        probe.main()
    assert not (tmp_path / "other.json").exists()
