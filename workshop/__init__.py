"""How our weights, figures and documents are made; run in the repository, not installed."""
