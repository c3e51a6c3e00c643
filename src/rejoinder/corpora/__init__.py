"""Examples: what they are, how they are stored, and how each corpus becomes them."""
