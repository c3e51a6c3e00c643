"""Replies over HTTP: an event loop takes requests in, a process computes them in batches."""
