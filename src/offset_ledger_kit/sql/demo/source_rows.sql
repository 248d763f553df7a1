SELECT carrier, number, day, origin, dest, dep_delay, air_time, remarks FROM public.flights
