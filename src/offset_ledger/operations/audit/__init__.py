"""Audit: the rules of a reliable topic, checked against a cluster."""
