"""Text into tokens and ids, and messages as people write them."""
