DROP VIEW pg_temp.{view}
