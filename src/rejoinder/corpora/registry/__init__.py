"""The formats and corpora that can be read, by name or by content."""
