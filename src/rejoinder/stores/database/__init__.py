"""The common parts of segments in databases."""
