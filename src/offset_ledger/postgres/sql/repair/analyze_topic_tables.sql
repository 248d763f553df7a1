ANALYZE topic_ranges, topic_rows, topic_refused, topic_skipped
