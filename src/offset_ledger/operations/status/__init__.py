"""Status: where a pipeline stands, by what its ledger knows and its servers answer; one rule for all who show it."""
