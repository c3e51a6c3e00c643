"""Training: recipes, batches, losses, optimisers and the loop.

Knows modules and batches, not papers.
"""
