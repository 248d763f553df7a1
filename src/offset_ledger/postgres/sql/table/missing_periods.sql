-- What partitions leave open of the periods ahead of now, and of those with a staged row there; where the default partition
-- has rows, it keeps them.
WITH needed AS (
    SELECT date_trunc({every}, {name} {local}) AS _start, false AS _ahead FROM {staged} AS s WHERE {name} IS NOT NULL GROUP BY 1
    UNION ALL
    SELECT _start, true
    FROM generate_series(date_trunc({every}, now() AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC' + {ahead} * {period}, {period})
        AS _start
), taken AS (
    SELECT coalesce(range_agg({range}(_lower, _upper)), '{{}}') AS _all
    FROM unnest(%(lowers)s::{type}[], %(uppers)s::{type}[]) AS b (_lower, _upper)
), open AS (
    SELECT _start, _ahead, _period, unnest({ranges}(_period) - _all) AS _gap
    FROM (SELECT _start, bool_or(_ahead) AS _ahead, {range}(_start {stored}, (_start + {period}) {stored}) AS _period
          FROM needed GROUP BY 1) AS p CROSS JOIN taken
)
SELECT CASE WHEN _gap = _period THEN to_char(_start, {suffix}) ELSE to_char(lower(_gap) {local}, 'YYYYMMDDHH24MISS') END,
       to_char(_start, 'YYYY-MM-DD'), lower(_gap)::text, upper(_gap)::text
FROM open AS o
WHERE (_ahead OR EXISTS (SELECT FROM {staged} AS s WHERE {name} <@ _gap))
  AND NOT EXISTS (SELECT FROM {rest} AS d WHERE {name} <@ _gap)
ORDER BY lower(_gap)
