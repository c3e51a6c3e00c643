"""Examples as token ids, and their batches."""
