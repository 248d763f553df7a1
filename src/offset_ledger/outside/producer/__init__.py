"""The producer: acks=all, idempotent, transactional where it is asked for; dead letters and the kit publish by it."""
