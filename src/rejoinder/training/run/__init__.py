"""Run on disk: folder, state, checkpoints, summary, and the README of its model.

Killing the process at any moment loses only what came after the last checkpoint, which is replaced
in one step. Random generators are not in it: dropout and the order of examples are functions of the
seed and the step.
"""
