"""The command line: one module for each verb, named like it."""
