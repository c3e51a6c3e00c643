"""Messages that refer to what was said before."""

import pytest

from rejoinder.text.references import refers_back


@pytest.mark.parametrize(
    "text", ["what does that cost?", "can I do it online?", "and on Sundays?", "also the red ones", "how much is this?", "how do I return it?", "why is that?", "how long does that take?", "what do they cost?", "does it cost anything?"]
)
def test_these_do(text):
    assert refers_back(text)


@pytest.mark.parametrize(
    "text", ["Where is my parcel?", "is there parking?", "It rains in my kitchen", "opening hours", "", "Can I return that lamp I bought?"]
)
def test_these_do_not(text):
    assert not refers_back(text)
