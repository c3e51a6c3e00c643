"""Small models with random weights: one that reads single texts, and one that reads histories."""

import pytest

from tests.encoders.small import small_model


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "model"
    small_model(folder)
    return str(folder)


@pytest.fixture(scope="session")
def history_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "with-history"
    small_model(folder, history=3)
    return str(folder)
