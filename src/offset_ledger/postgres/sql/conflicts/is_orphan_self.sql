NOT EXISTS (SELECT FROM (SELECT *, {referenced} FROM {table}) AS p
            WHERE {equal} AND NOT EXISTS (SELECT FROM winner AS s WHERE {same_key}))
AND NOT EXISTS (SELECT FROM winner AS p WHERE NOT p._goes AND {equal})
