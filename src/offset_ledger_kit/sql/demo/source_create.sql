INSERT INTO public.flights
SELECT carrier, number, day, origin, dest, NULL, NULL, remarks FROM public.states WHERE is_read = %(is_read)s
