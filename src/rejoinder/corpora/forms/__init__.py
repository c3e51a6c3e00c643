"""Files of a form that is known: lines, tables, pairs and arrays."""
