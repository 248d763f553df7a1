"""The demo: the flights of 2013 through the whole stack, and the proof that each arrived exactly once."""
