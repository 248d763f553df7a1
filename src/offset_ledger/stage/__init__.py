"""Stage: exactly the planned ranges are read, by Spark or in this process, and each slice is copied into staging."""
