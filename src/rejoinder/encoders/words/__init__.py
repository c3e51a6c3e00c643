"""Words as sparse vectors: BM25, TF-IDF and their sum with another ranker."""
