"""The command: one file per verb, thin."""
