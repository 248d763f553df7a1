"""The quality gate: Great Expectations judges the staged rows in Postgres, where they already are."""
