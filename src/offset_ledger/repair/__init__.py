"""Repair: verify, redrive, dead letters and prune."""
