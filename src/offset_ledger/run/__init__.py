"""Run: what a run is asked to do, and all steps of a batch in one process."""
