"""Adapters to other libraries, one file and one extra each; a file imports its library first."""
