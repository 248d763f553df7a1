"""Decide: what a person settles, such as a loss or a rejected batch; each is kept with its reason."""
