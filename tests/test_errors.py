"""Errors show the beginning of a wrong value, however large it is."""

import pytest

import rejoinder
from rejoinder.errors import InputError

HUGE = ["We open at nine."] * 100_000


@pytest.mark.parametrize(
    "call",
    [
        lambda _: rejoinder.load(HUGE),
        lambda _: rejoinder.Index.build(HUGE, ["Hello!"], "other"),
        lambda _: rejoinder.evaluate(HUGE, []),
        lambda index: index.search([["Hello!"]], where=HUGE),
        lambda index: index.search(HUGE),
        lambda index: index.delete(3.5),
    ],
)
def test_a_huge_value_makes_a_short_line(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = rejoinder.load("convert-small")
    index = rejoinder.Index.build(model, ["We open at nine.", "By card."], tmp_path / "index")
    with pytest.raises(InputError) as caught:
        call(index)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)
