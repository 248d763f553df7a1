SELECT {place} AS _place, {key}, _rank, _run, _partition, _offset, concat_ws(', ', {values}) AS _shown,
       ({key}) IS DISTINCT FROM ({first_key}) AS _loses, first_value({event}) OVER _of_value AS _holder,
       first_value(_rank) OVER _of_value = 0 AS _to_stored, first_value(_partition) OVER _of_value AS _to_partition,
       first_value(_offset) OVER _of_value AS _to_offset
FROM (SELECT {key}, {ordering}, {values}, CASE WHEN _settled THEN 1 ELSE 2 END AS _rank, _runs[{place}] AS _run
      FROM winner WHERE {holds}
      UNION ALL
      SELECT {stored_key}, {stored_order}, {stored_values}, 0, NULL FROM {stored} AS t
      JOIN (SELECT DISTINCT {values} FROM winner WHERE {holds}) AS v ON {same_values}
      WHERE NOT EXISTS (SELECT FROM winner AS s
                        WHERE {same_key} AND (_goes OR {waits} AND (NOT {holds} OR ({values}) IS DISTINCT FROM ({stored_values}))))) AS s
WINDOW _of_value AS (PARTITION BY {values} ORDER BY _rank, {ordering})
