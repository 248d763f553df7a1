CREATE TABLE public.flights_changes (
    carrier varchar(2), number integer, day date, origin varchar(3), dest varchar(3) NOT NULL,
    dep_delay integer, air_time integer, remarks text, PRIMARY KEY (origin, day, carrier, number)
) PARTITION BY LIST (origin);
CREATE TABLE public.flights_changes_ewr PARTITION OF public.flights_changes FOR VALUES IN ('EWR');
CREATE TABLE public.flights_changes_jfk PARTITION OF public.flights_changes FOR VALUES IN ('JFK');
CREATE TABLE public.flights_changes_lga PARTITION OF public.flights_changes FOR VALUES IN ('LGA')
