"""The target table: its columns by a sample, whether it fits the pipeline file, how it is created, what is in it."""
