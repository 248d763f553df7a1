-- A row that is written again gets another xmin, even if its values stay.
SELECT count(*), sum(hashtextextended(xmin::text || t::text, 0))::text FROM {table} t
