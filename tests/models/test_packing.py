import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.models.packing import pack

lengths_of_texts = st.lists(st.integers(0, 60), min_size=1, max_size=40)


@given(lengths_of_texts, st.sampled_from([0, 5, 16, 10_000]))
@settings(deadline=None, max_examples=60)
def test_every_text_is_found_again_whatever_the_segments(lengths, cost):
    counts = np.array(lengths, dtype=np.int32)
    ids = np.arange(counts.sum(), dtype=np.int32)
    batch = pack(ids, counts, padding_id=-7, segment_cost=cost)
    ordered = []
    for segment in batch.segments:
        stop = segment.start + segment.count * segment.length
        rows = batch.ids[segment.start : stop].view(segment.count, segment.length)
        places = batch.positions[segment.start : stop].view(segment.count, segment.length)
        assert (places == torch.arange(segment.length)).all()
        real = torch.ones_like(rows, dtype=torch.bool) if segment.real is None else segment.real
        ordered += [row[mask].tolist() for row, mask in zip(rows, real, strict=True)]
    starts = np.cumsum(counts) - counts
    for text, row in enumerate(batch.restore.tolist()):
        expected = ids[starts[text] : starts[text] + counts[text]].tolist()
        assert ordered[row] == (expected or [-7])  # a text without tokens is one padding token
    assert batch.real_tokens == sum(max(n, 1) for n in lengths)
    assert stop == batch.computed_tokens
    assert cost or batch.computed_tokens == batch.real_tokens


def test_a_training_batch_of_chat_lengths_is_padded_by_less_than_five_per_cent():
    counts = np.clip(np.random.default_rng(0).gamma(2.0, 7.0, 2048).astype(np.int32), 1, 60)
    batch = pack(np.zeros(counts.sum(), dtype=np.int32), counts, padding_id=0)
    assert batch.computed_tokens < 1.05 * batch.real_tokens
    assert len(batch.segments) < 60
