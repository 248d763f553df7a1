SELECT count(*) FROM {staging}
