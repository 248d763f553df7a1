-- Columns that were written with the row until now have its order.
INSERT INTO {target} ({columns})
SELECT {seeded} FROM {target} AS t CROSS JOIN unnest(%(groups)s::text[]) AS g (name) WHERE t._group = ''
