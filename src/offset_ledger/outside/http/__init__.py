"""HTTP: one bounded exchange with a server, and the bearer tokens of a token endpoint."""
