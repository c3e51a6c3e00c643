"""Intent classifiers on frozen encodings: data, heads, refusal, reports."""
