"""`rejoinder plot`, from the command line to the exit code."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest

import rejoinder
from rejoinder.cli import main
from rejoinder.cli.plot import split_title
from rejoinder.corpora.example import write_examples
from rejoinder.corpora.labelled import read_labelled
from rejoinder.errors import InputError
from rejoinder.evaluation.projection import neighbour_purity
from rejoinder.training.loop import train
from tests.evaluation.fakes import Rule, knows_nothing, numbered_examples
from tests.training.tiny import MODEL, recipe, write_data

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
