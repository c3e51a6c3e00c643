"""Models written in other formats."""
