"""Stage: exactly the planned ranges are read, by tasks of Spark or this process, and slices are copied into staging."""
