"""Inputs of training, made once from folders of examples, and kept.

They are the vocabulary, token stores and vectors to start from.
"""
