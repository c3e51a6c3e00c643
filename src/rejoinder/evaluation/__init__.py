"""Quality of rankings: recall at k, MRR and their confidence intervals."""
