"""Schema registry: the one place that asks a registry for schemas, and registers them there."""
