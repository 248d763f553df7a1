"""Avro: ``reader`` reads record by record, strictly; ``lockstep_reader`` walks whole columns at once."""
