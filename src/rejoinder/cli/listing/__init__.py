"""The verbs of `rejoinder list`."""
