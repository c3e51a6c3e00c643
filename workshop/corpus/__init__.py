"""The pretraining corpus: many sources of dialogues as one training set.

It is checked against the evaluation sets.
"""
