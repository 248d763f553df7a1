INSERT INTO topic_skipped VALUES %s
