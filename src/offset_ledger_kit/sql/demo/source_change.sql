UPDATE public.flights SET dep_delay = s.dep_delay, air_time = s.air_time FROM public.states s
WHERE (flights.carrier, flights.number, flights.day, flights.origin) = (s.carrier, s.number, s.day, s.origin)
    AND NOT s.is_cancelled;
DELETE FROM public.flights USING public.states s
WHERE (flights.carrier, flights.number, flights.day, flights.origin) = (s.carrier, s.number, s.day, s.origin)
    AND s.is_cancelled
