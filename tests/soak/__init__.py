"""Hours of ordinary running with faults: nothing is lost, and nothing grows."""
