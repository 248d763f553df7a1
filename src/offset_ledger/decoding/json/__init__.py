"""JSON: ``decoder`` reads value by value; ``wire``, ``proofs`` and ``unique`` prove whole columns at once."""
