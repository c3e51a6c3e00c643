"""Rankers that need no training: the bar that every model has to clear."""
