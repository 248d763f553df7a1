NOT EXISTS (SELECT FROM (SELECT {referenced} FROM {table}) AS p WHERE {equal})
