"""The index: encoded candidates on disk, searched exactly."""
