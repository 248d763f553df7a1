DROP TABLE IF EXISTS pg_temp.conflicting;
CREATE TEMPORARY TABLE conflicting
    (_partition integer, _offset bigint, place integer, reason jsonb, to_partition integer, to_offset bigint);
-- The staged rows that would be written if they won, where the key has a value, or is given one, that another key has or is given.
-- ``_runs`` tells for each constraint which rows of the key follow one another with the same values.
CREATE TEMPORARY TABLE contender ON COMMIT DROP AS
WITH valued AS MATERIALIZED (
    SELECT {key}, {ordering}, {claimed}, _goes, false AS _settled
    FROM (SELECT {generated}
          FROM (SELECT {image} FROM {staging} AS s LEFT JOIN {joined} WHERE {written}) AS image) AS image
)
SELECT *, ARRAY[{runs}] AS _runs FROM valued WHERE ({key}) IN ({contended});
-- Else Postgres takes a large batch for a small one.
ANALYZE pg_temp.contender
