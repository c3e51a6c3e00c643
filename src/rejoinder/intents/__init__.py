"""Intent classifiers on frozen encodings: data, encoders, classifiers, out-of-scope scores, reports."""
