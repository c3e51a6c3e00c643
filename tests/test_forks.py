"""Forked workers answer: of an index, an encoder and a spaCy pipeline that the parent has used, on default threads."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

import rejoinder
from rejoinder.encoders.open import open_texts
from rejoinder.intents.classifier import train_classifier
from rejoinder.intents.data import TrainingTexts
from rejoinder.intents.folder import save_classifier
from tests.intents.toy import toy_data

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")

INDEX = """
import rejoinder
index = rejoinder.Index.open("index")
def answer():
    return [index.search([["When do you open?"], ["Where is my order?"]], k=1)[0][0].text]
"""
ENCODER = """
import rejoinder
model = rejoinder.load("bi-small")
def answer():
    return model.encode_responses(["We open at nine.", "Your parcel is on its way."]).round(3).tolist()
"""
MATRICES = """
import numpy as np
import torch
from rejoinder.stores.scan import products
rows = np.ones((4096, 256), np.float32)
def answer():
    return products(rows, rows[:64]).sum().item()
"""
FORK = """
import multiprocessing
if __name__ == "__main__":
    told = answer()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert [pool.apply(answer) for _ in range(2)] == [told, told]
    print("answered")
"""
SPACY = """
import spacy
if __name__ == "__main__":
    nlp = spacy.blank("en")
    nlp.add_pipe("rejoinder_intents", config={"classifier": "intents"})
    texts = ["soon", "later", "never"] * 3
    told = [list(doc.cats) for doc in nlp.pipe(texts)]
    assert [list(doc.cats) for doc in nlp.pipe(texts, n_process=2, batch_size=2)] == told
    print("answered")
"""


def run_with_default_threads(code, folder):
    """Run a program with as many threads as its libraries choose, two at least."""
    (folder / "program.py").write_text(code, encoding="utf-8")
    ours = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "program.py"]
    program = subprocess.Popen(
        command, cwd=folder, env=ours, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert program.communicate(timeout=100)[0] == "answered\n"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)  # with its children


@pytest.mark.parametrize("uses", [INDEX, ENCODER, MATRICES])
def test_forked_workers_answer_what_their_parent_did(uses, tmp_path):
    replies = ["We open at nine.", "Your parcel is on its way.", "A refund takes five days."]
    rejoinder.Index.build(rejoinder.load("bi-small"), replies, tmp_path / "index")
    run_with_default_threads(uses + FORK, tmp_path)


def test_spacy_may_divide_texts_among_processes(tmp_path):
    pytest.importorskip("spacy")
    pytest.importorskip("sklearn")
    classifier = train_classifier(open_texts("bi-small"), TrainingTexts(toy_data(10)))
    save_classifier(classifier, tmp_path / "intents")
    run_with_default_threads(SPACY, tmp_path)
