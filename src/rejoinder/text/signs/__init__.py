"""Signs of words: what a text says of each, by its negators, verbs and the poles of pairs."""
