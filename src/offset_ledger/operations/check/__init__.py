"""Check: the effects of a pipeline file, read and compared before a batch has them."""
