"""The steps of a batch, in this order: plan, stage, validate, commit, report; what people decide between, and a run."""
