"""Does a model parrot, does it cling to an old subject?

`python benchmarks/behaviour.py DATA MODEL...`. Both are measured on the test dialogues of a data
folder, with the model's own encodings:

- *parroting*: every other message of a dialogue is answered with the best of many replies, its own
  among them, and the answer takes the place of the real one. Counted are answers that either side
  had given before: of the model as it is, and of a search as `rejoinder chat` does it, which leaves
  out what was said and near-copies (not for "minilm").
- *change of subject*: after one dialogue comes a message of another. The replies are further
  messages of both, as many of each; counted are conversations in which the best one is the other
  dialogue's, with the whole conversation to read, with what a search reads of it
  (`queries.drop_stale_history`), and with the newest message alone.

"minilm" in place of a model folder is all-MiniLM-L6-v2 with the mean of its vectors of newest and
earlier messages.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

import rejoinder
from common import write_result
from rejoinder.arrays import FloatArray
from rejoinder.conversations import Conversation, read_contexts
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.queries import drop_stale_history

Answer: TypeAlias = Callable[[list[list[str]]], list[str]]  # conversations to a reply for each
TURNS = 7
"""Answers in a row at most."""


class MeanOfMessages(DualEncoder):
    """A sentence encoder that reads a conversation as a mean of two vectors.

    The newest message's vector and the mean of the earlier ones'.
    """

    name = "minilm"
    fingerprint = "minilm"

    def __init__(self) -> None:
        self._texts = open_encoder("minilm")

    def encode_contexts(self, contexts: Sequence[Conversation]) -> FloatArray:
        """Return one vector a conversation, (n, d)."""
        return np.stack(
            [
                self._conversation(self.encode_responses(context))
                for context in read_contexts(contexts)
            ]
        )

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """Return one vector of unit length a text, (n, d)."""
        vectors = np.asarray(self._texts.encode_responses(list(responses)))
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    @staticmethod
    def _conversation(messages: FloatArray) -> FloatArray:
        earlier = messages[:-1].mean(axis=0) if len(messages) > 1 else 0
        return messages[-1] + earlier


def main() -> None:
    """Run from the shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("models", nargs="+")
    parser.add_argument(
        "--dialogues",
        type=int,
        default=50,
        help="dialogues that are answered, and changes of subject",
    )
    parser.add_argument(
        "--replies",
        type=int,
        default=2000,
        help="replies to choose from when dialogues are answered",
    )
    given = parser.parse_args()
    dialogues = read_dialogues(given.data)
    random.Random(0).shuffle(dialogues)
    figures: dict[str, Any] = {}
    for name in given.models:
        model = MeanOfMessages() if name == "minilm" else open_encoder(name)
        texts = list(dict.fromkeys(message for dialogue in dialogues for message in dialogue))[
            : given.replies
        ]
        said, answers = parroting(best_of(model, texts), dialogues[: given.dialogues])
        in_chat = (
            None
            if name == "minilm"
            else parroting(chat_of(model, texts), dialogues[: given.dialogues])
        )
        whole, searched, newest, changes = subject_changes(model, dialogues, given.dialogues)
        figures[name] = {
            "answers": answers,
            "said before": said,
            "in chat": in_chat,
            "changes of subject": changes,
            "right subject, whole conversation": whole,
            "right subject, in a search": searched,
            "right subject, newest message": newest,
        }
        chat = "" if in_chat is None else f", in chat {in_chat[0]} of {in_chat[1]}"
        print(
            (
                f"{name}: {said} of {answers} answers had been said{chat};"
                f" right subject in {whole} of {changes} conversations read whole,"
                f" in {searched} in a search, in {newest} by the newest message"
            ),
            flush=True,
        )
    write_result("behaviour", {"data": given.data, "models": figures})


def read_dialogues(data: str) -> list[list[str]]:
    """Return the messages of each test dialogue: its longest context and response."""
    threads: dict[str, list[str]] = {}
    for example in rejoinder.read_examples(data, split="test"):
        messages = [*example.context, example.response]
        if len(messages) > len(threads.get(example.thread, ())):
            threads[example.thread] = messages
    return [messages for messages in threads.values() if len(messages) >= 4]


def best_of(model: Any, texts: Sequence[str]) -> Answer:
    """Answer with the best of some texts."""
    vectors = model.encode_responses(texts)
    return lambda talks: [
        texts[place] for place in (model.encode_contexts(talks) @ vectors.T).argmax(axis=1)
    ]


def chat_of(model: Any, texts: Sequence[str]) -> Answer:
    """Answer as `rejoinder chat` does."""
    with tempfile.TemporaryDirectory() as folder:
        # its files stay mapped when the folder is gone
        index = Index.build(model, texts, f"{folder}/index")
    return lambda talks: [
        found[0].text for found in index.search(talks, 1, no_repeat=True, distinct=True)
    ]


def parroting(answer: Answer, dialogues: Sequence[list[str]]) -> tuple[int, int]:
    """Return how many answers had been said before, and the number of answers."""
    conversations: list[list[str]] = [[] for _ in dialogues]
    said = answers = 0
    for turn in range(TURNS):
        going = [
            (talk, dialogue)
            for talk, dialogue in zip(conversations, dialogues, strict=True)
            if 2 * turn < len(dialogue)
        ]
        if not going:
            break
        for talk, dialogue in going:
            talk.append(dialogue[2 * turn])
        for (talk, _), best in zip(going, answer([talk for talk, _ in going]), strict=True):
            said += best in talk
            answers += 1
            talk.append(best)
    return said, answers


def subject_changes(
    model: Any, dialogues: Sequence[list[str]], count: int
) -> tuple[int, int, int, int]:
    """Return in how many conversations the new subject won, and of how many.

    It may win in the whole conversation, in a search, or by the newest message alone.
    """
    won = np.zeros(3, int)
    pairs = list(pairwise(dialogues))[:count]
    for old, new in pairs:
        half = len(old) // 2
        further = min(len(old) - half, len(new) - 1)
        conversation = [*old[:half], new[0]]
        vectors = model.encode_responses([*old[half : half + further], *new[1 : 1 + further]])
        read = [conversation, *drop_stale_history(model, [conversation]), conversation[-1:]]
        won += (model.encode_contexts(read) @ vectors.T).argmax(axis=1) >= further
    whole, searched, newest = won.tolist()
    return whole, searched, newest, len(pairs)


if __name__ == "__main__":
    main()
