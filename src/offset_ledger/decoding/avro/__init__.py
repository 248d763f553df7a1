"""Avro: ``reader`` reads record by record, strictly; ``lockstep`` walks whole columns at once."""
