"""Care for the replies of an index: feedback, learning, mining, edits, reports on their use."""
