"""The verbs of `rejoinder lab`."""
