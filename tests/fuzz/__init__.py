"""Fuzzers of the three decoders, for as long as one wants."""
