"""The computing half of a server: jobs in batches, on a process of their own."""
