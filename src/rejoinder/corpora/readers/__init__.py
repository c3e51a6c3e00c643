"""Readers: published corpora, and the forms of files that people have, by where they come from."""
