"""What can be read, by name or by its content."""
