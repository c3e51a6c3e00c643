"""An index in a folder."""
