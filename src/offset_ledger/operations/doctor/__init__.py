"""Doctor: checks that everything a pipeline needs is there, with remedies; nothing is changed."""
