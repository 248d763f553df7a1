"""The target table: whether it fits the pipeline file, how it is created, what is in it."""
