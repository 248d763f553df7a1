-- A path that names pg_temp last would find a table of that name before the view.
SELECT set_config('search_path', concat_ws(', ', 'pg_temp', nullif(current_setting('search_path'), '')), false)
