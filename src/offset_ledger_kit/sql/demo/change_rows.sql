SELECT carrier, number, day, origin, dest, dep_delay, air_time, remarks, relname
FROM public.flights_changes t JOIN pg_class c ON c.oid = t.tableoid
