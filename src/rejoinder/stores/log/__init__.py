"""The log of an index: its database, and the SQL of each of its tables.

What belongs to a transaction takes the transaction's connection. A read of its own takes the log,
which may never have been written.
"""
