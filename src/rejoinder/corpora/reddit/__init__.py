"""Comments of Reddit as trees of replies."""
