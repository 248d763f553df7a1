SELECT event_id, publish_at, status, carrier, flight_number, tail_number, origin, destination, flight_date,
       distance, dep_time, dep_delay, arr_time, arr_delay, air_time
FROM public.flights
