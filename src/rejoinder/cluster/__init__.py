"""The same jobs on a Ray cluster."""
