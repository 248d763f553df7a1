-- A record that loses to one that loses itself may yet stand. With a record those right before it lose that have the same values.
WITH winner AS (
    SELECT DISTINCT ON ({key}) * FROM pg_temp.contender ORDER BY {key}, {by_rule}
), claim AS MATERIALIZED (
    {claims}
), loser AS MATERIALIZED (
    SELECT * FROM claim AS l
    WHERE _loses AND _rank > 0 AND (_to_stored OR NOT EXISTS (
        SELECT FROM claim AS f WHERE f._loses AND f._rank > 0 AND (f._partition, f._offset) = (l._to_partition, l._to_offset)))
)
INSERT INTO pg_temp.conflicting
SELECT s._partition, s._offset, _place, jsonb_build_object('path', _path, 'code', 'conflict', 'detail',
           concat(_detail, left(regexp_replace(concat('(', _path, ') = (', _shown, ')', _of_holder, _holder) COLLATE "C", '[[:cntrl:]]+', ' ', 'g'), 200))),
       CASE WHEN NOT _to_stored THEN _to_partition END, CASE WHEN NOT _to_stored THEN _to_offset END
FROM loser AS l JOIN unnest({details}, {paths}, {holders}) WITH ORDINALITY AS u (_detail, _path, _of_holder, _place) USING (_place)
JOIN pg_temp.contender AS s USING ({key})
WHERE _runs[_place] = _run
