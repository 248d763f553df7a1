"""Run: what a run is asked to do, redrives too, and all steps of a batch in one process."""
