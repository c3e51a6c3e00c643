"""A run on disk: its folder, where it stands, its checkpoints, and what came out.

Killing the process at any moment loses only what came after the last checkpoint, which is replaced
in one step. Random generators are not in it: dropout and the order of examples are functions of the
seed and the step.
"""
