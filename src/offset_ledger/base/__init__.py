"""The common ground: failpoints, retries, progress, units, ids, the extras that are installed."""
