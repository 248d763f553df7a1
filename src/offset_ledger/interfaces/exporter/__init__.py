"""Prometheus: what ledger and topics say of every pipeline at the moment of a scrape; it reads and changes nothing."""
