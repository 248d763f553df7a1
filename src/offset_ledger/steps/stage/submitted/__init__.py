"""The entry points of spark-submit, which puts this folder first on the import path: keep it free of others."""
