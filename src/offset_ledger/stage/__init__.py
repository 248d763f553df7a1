"""Stage: Spark reads exactly the planned ranges, and each slice is copied into staging."""
