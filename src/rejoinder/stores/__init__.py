"""Storage of indexes and their logs: a folder, PostgreSQL, Milvus; exact and approximate scans."""
