"""Stage: exactly the planned ranges are read, by Spark's tasks or in this process, and slices are copied into staging."""
