"""An index in PostgreSQL with pgvector: each in a schema of its own."""
