"""Doctor: whether everything that a pipeline needs is there, and what to do where it is not; nothing is changed."""
