"""Rules that a reliable topic keeps, checked against a cluster."""
