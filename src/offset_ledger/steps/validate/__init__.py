"""Validate: Great Expectations on the staged rows, and the gate that passes or rejects the batch."""
