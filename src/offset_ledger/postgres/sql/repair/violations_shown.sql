SELECT line, earlier, total FROM (
    SELECT line, coalesce(earlier, false) AS earlier, count(*) OVER of_a_kind AS total, row_number() OVER of_a_kind AS place
    FROM ({query}) AS found WINDOW of_a_kind AS (PARTITION BY coalesce(earlier, false))
) AS numbered WHERE place <= %(shown)s ORDER BY earlier, place
