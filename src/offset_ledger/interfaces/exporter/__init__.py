"""Prometheus: the state of every pipeline by ledger and topic at the moment of a scrape; it only reads."""
