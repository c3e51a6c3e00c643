"""Readers of published corpora, and of the forms of files that people have: replies, or chats."""
