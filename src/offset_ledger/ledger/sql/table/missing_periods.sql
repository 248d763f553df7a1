-- The periods with a staged row and those ahead of now, unless partitions cover the first and the last of their values.
WITH needed AS (
    SELECT date_trunc({every}, {name} {local}) AS _start, min({name}) AS _first, max({name}) AS _last FROM {staged} AS s WHERE {name} IS NOT NULL
    GROUP BY 1
    UNION ALL
    SELECT _start, _start {stored}, _start {stored}
    FROM generate_series(date_trunc({every}, now() AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC' + {ahead} * {period}, {period})
        AS _start
), period AS (
    SELECT _start, _start + {period} AS _end, _start {stored} AS _starts, (_start + {period}) {stored} AS _ends, _value AS {name}
    FROM needed CROSS JOIN unnest(ARRAY[_first, _last]) AS _value
)
SELECT DISTINCT to_char(_start, {suffix}), to_char(_start, 'YYYY-MM-DD') AS first_day, to_char(_end, 'YYYY-MM-DD')
FROM period AS p WHERE NOT ({covered}) ORDER BY first_day
