SELECT count(*), count(*) FILTER (WHERE status = 'cancelled'), count(dep_delay), round(avg(dep_delay), 4) FROM public.flights
