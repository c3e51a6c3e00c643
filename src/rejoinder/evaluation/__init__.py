"""How well does a ranker rank? Recall at k, MRR and their confidence intervals."""
