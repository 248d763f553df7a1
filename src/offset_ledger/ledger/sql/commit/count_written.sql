-- What the merge says of the rows that it wrote, by partition.
SELECT _partition,
       min(wrong) AS wrong,
       count(*) FILTER (WHERE whole AND wrong IS NULL AND NOT _deleted AND action = 'INSERT') AS inserted,
       count(*) FILTER (WHERE whole AND wrong IS NULL AND NOT _deleted AND action = 'UPDATE') AS updated,
       count(*) FILTER (WHERE whole AND wrong IS NULL AND _deleted) AS deleted,
       count(*) FILTER (WHERE whole AND action = 'INSERT') AS added
FROM written GROUP BY _partition
