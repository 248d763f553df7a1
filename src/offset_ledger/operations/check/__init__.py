"""Check: what a pipeline file would read and change, before a batch does."""
