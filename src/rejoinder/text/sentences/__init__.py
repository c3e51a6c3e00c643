"""Sentences of a message: where they end, what they ask, and what around that says nothing."""
