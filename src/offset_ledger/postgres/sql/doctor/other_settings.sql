-- What a session was sent and has not; set_config() writes a value as the server does. Those of TCP are the socket's.
WITH sent AS MATERIALIZED (
    SELECT name, value, current_setting(name, true) AS found FROM unnest(%(names)s, %(values)s) AS s (name, value)
    WHERE name NOT LIKE 'tcp%%')
SELECT sent.name, found, value FROM sent LEFT JOIN pg_settings p ON p.name = sent.name
WHERE CASE WHEN p.context = 'user' THEN found IS DISTINCT FROM set_config(sent.name, value, true)
      ELSE p.context IS NULL AND sent.name LIKE '%%.%%' AND found IS DISTINCT FROM value END
ORDER BY 1
