-- What becomes of each staged row, in key order and before anything is written: i, its key is new; u, newer than the stored row;
-- f, the stored record, whose row is filled; s, the stored record; e, lost to one of the same publish_at, or to the first;
-- o, lost to a later one. Of each group of columns, whether the row gives its values.
CREATE UNLOGGED TABLE {classes} WITH (autovacuum_enabled = false) AS
SELECT {staged}, {row_known} IS NOT NULL AS _known,
       CASE WHEN _place = 1 AND NOT ({there}) THEN 'i'
            WHEN _place = 1 AND NOT {first_wins} AND ({order}) > ({stored_order}) THEN 'u'
            WHEN (_place = 1 OR {first_wins}) AND ({state}) = ({stored_state}) THEN CASE WHEN {fills} THEN 'f' ELSE 's' END
            WHEN {first_wins} OR {same_state} THEN 'e'
            ELSE 'o' END::"char" AS _class{gives}
FROM (SELECT {ranked}, row_number() OVER by_key AS _place, first_value(publish_at) OVER by_key AS _newest{first_of_groups}
      FROM {staging_in_order} AS s
      WINDOW by_key AS (PARTITION BY {key} ORDER BY {by_rule} ROWS UNBOUNDED PRECEDING)) AS s
LEFT JOIN {target} AS t ON {same_key}{joined}
ORDER BY {staged_key};
ANALYZE {classes} (_class)
