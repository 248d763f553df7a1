SELECT {key} FROM (
    SELECT {key}, count(*) OVER (PARTITION BY {values}) AS _keys
    FROM (SELECT {key}, {values} FROM valued WHERE {holds}
          UNION
          SELECT {stored_key}, {stored_values} FROM {stored} AS t
          JOIN (SELECT DISTINCT {values} FROM valued WHERE {holds}) AS v ON {same_values}) AS holders
) AS counted WHERE _keys > 1
