"""Plan: a snapshot of the topic, the cursors and the limits become the offset ranges of a batch."""
