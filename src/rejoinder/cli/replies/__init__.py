"""The verbs that find replies: `reply` and `chat`."""
