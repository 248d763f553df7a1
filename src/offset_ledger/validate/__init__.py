"""The quality gate: Great Expectations validates staged rows in Postgres, and the batch passes or is rejected."""
