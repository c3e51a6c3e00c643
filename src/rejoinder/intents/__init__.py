"""Intent classifiers on encodings."""
