"""What segments in databases have in common."""
