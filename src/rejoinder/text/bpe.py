"""Our own byte pair encoding for pretraining from scratch (POLY, section 4.1).

30,000 merges over the bytes of the lower-cased text, so that no character is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.text.pretrained import Pretrained, Special

MARKS = Special("[PAD]", "[S]", "[S]", "[NEWLINE]", "[MASK]")
"""POLY's [S] surrounds contexts and responses, its NEWLINE stands between turns."""

BYTES = 256


def build_bpe(texts: Iterable[str], merges: int = 30_000, minimum_count: int = 2) -> Pretrained:
    """Learn merges from texts.

    Args:
        texts: what the model will read.
        merges: how many.
        minimum_count: how often a pair must be seen to be merged.

    Raises:
        InputError: there is no text.
        MissingExtraError: the tokenizers library is not installed.
    """
    try:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    except ImportError:
        raise MissingExtraError("building a BPE vocabulary", "bert") from None
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    special = list(dict.fromkeys((MARKS.padding, MARKS.start, MARKS.turn, MARKS.mask)))
    trainer = trainers.BpeTrainer(
        vocab_size=len(special) + BYTES + merges,
        min_frequency=minimum_count,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    count = 0

    def counted() -> Iterable[str]:
        nonlocal count
        for text in texts:
            count += 1
            yield text

    tokenizer.train_from_iterator(counted(), trainer)
    if not count:
        raise InputError("no text to build a vocabulary from")
    return Pretrained(json.loads(tokenizer.to_str()), MARKS)
