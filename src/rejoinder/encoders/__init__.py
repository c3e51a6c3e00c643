"""Rankers beside our own models: keywords, and vectors of pretrained encoders.

The bar every model has to clear.
"""
