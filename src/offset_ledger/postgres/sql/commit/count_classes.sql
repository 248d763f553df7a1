SELECT _partition,
       count(*) AS rows,
       count(*) FILTER (WHERE _class = 'i' AND NOT _deleted) AS inserted,
       count(*) FILTER (WHERE _class = 'u' AND NOT _deleted OR _class = 'f') AS updated,
       count(*) FILTER (WHERE _class IN ('i', 'u') AND _deleted) AS deleted,
       count(*) FILTER (WHERE _class = 'i') AS added,
       count(*) FILTER (WHERE _class IN ('i', 'u', 'f', 's')) AS standing,
       count(*) FILTER (WHERE _class = 'e') AS same_state,
       count(*) FILTER (WHERE _class = 'o') AS older{to_write}
FROM {classes} AS s GROUP BY _partition
