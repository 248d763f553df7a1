INSERT INTO topic_ranges VALUES %s
