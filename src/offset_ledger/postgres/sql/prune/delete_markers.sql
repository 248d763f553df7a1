WITH s AS MATERIALIZED (
    SELECT {key} FROM {target} AS t
    WHERE _deleted AND greatest(publish_at, _timestamp) < %(before)s AND _offset < (%(log_starts)s::jsonb ->> _partition::text)::bigint
    LIMIT %(limit)s
), gone AS (
    DELETE FROM {target} AS t USING s WHERE NOT %(dry_run)s AND {same_key}
)
SELECT count(*) FROM s
