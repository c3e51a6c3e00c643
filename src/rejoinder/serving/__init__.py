"""Replies over HTTP: one thread computes what an event loop takes in."""
