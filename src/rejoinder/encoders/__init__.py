"""Texts in, vectors or scores out."""
