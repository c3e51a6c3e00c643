"""Replies as vectors: texts without their frames, with titles and examples, and what scores say."""
