"""Spark: where it is installed, sessions of this machine and of a server, and what spark-submit is given."""
