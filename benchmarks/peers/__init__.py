"""The same work by this project and by what else people use, in turns, with each answer checked by identity."""
