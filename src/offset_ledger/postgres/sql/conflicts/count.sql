SELECT count(*) FROM pg_temp.conflicting WHERE place = %(place)s
