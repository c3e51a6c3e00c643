"""The choice of replies among the candidates that were found."""
