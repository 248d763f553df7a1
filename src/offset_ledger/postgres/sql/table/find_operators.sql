-- Where the schema of a type such as citext is not in the search_path, = compares its values as texts.
SELECT set_config('search_path', concat_ws(', ', nullif(current_setting('search_path'), ''), schemas), false)
FROM (SELECT string_agg(DISTINCT quote_ident(nspname), ', ') AS schemas
      FROM unnest(%(types)s::text[]) AS name JOIN pg_type AS t ON t.oid = to_regtype(name)
      JOIN pg_type AS b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid) JOIN pg_namespace AS s ON s.oid = b.typnamespace
      WHERE nspname <> ALL (current_schemas(true))) AS missing
WHERE schemas IS NOT NULL
