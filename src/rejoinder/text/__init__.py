"""Text to ids and back, and the building of vocabularies."""
