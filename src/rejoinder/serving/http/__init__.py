"""Parts of every answer over HTTP: the log, errors, and the exchange they are about."""
