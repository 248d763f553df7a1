SELECT count(*) FILTER (WHERE NOT _deleted), count(*) FILTER (WHERE _deleted) FROM {staging}
