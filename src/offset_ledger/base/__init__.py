"""The ground that everything stands on: failpoints, retries, progress, units, ids, the extras that are installed."""
