"""Networks of the papers: token ids in, vectors out."""
