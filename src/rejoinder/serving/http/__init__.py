"""Parts of every answer over HTTP: keys, logs, errors, and the exchange they are about."""
