"""Search for replies in an index, and the building of one."""
