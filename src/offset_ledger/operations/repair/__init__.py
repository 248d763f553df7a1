"""Repair: verify, prune, markers of deletes, quarantine as files."""
