"""A ledger of each version that was in use is upgraded, with batches open in it."""
