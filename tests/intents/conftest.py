"""Shared by the tests of intents: a small model with random weights."""

import pytest

from tests.encoders.small import small_model


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "model"
    small_model(folder)
    return str(folder)
