"""JSON: ``decoder`` reads value by value; ``wire`` and ``unique`` prove whole columns at once."""
