"""The target table: columns from a sample, its fit with the pipeline file, its creation and its contents."""
