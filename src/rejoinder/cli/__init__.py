"""The `rejoinder` command: thin verbs, related ones in one file."""
