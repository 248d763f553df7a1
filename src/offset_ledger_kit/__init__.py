"""Beside the pipeline: publishing with safe settings, topics, labs, the local stack and the demo."""
