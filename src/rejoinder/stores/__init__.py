"""Encoded replies on disk: files of segments, and the scans that search them."""
