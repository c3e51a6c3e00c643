"""Readers: a file for each published corpus."""
