CREATE TABLE public.flights (
    carrier varchar(2), number integer, day date, origin varchar(3), dest varchar(3) NOT NULL,
    dep_delay integer, air_time integer, remarks text, PRIMARY KEY (carrier, number, day, origin)
);
-- Compressed, such a text would be short enough to be logged with each UPDATE.
ALTER TABLE public.flights ALTER remarks SET STORAGE EXTERNAL;
CREATE TABLE public.states (LIKE public.flights INCLUDING ALL, is_read boolean, is_cancelled boolean)
