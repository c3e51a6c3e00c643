"""Mails: what their programs and habits put around a message, and the message."""
