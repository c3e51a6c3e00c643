"""Figures of classifiers: accuracy, learning curves, suspect labels."""

from rejoinder.intents.evaluation.accuracy import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
