"""A help desk whose tickets get suggestions as notes."""
