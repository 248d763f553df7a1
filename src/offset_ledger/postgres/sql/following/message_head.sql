COALESCE(
    (SELECT substring(named FROM CASE substring(named FROM 1 FOR 1) WHEN '\x00' THEN 6 ELSE 18 END)
     FROM jsonb_array_elements(CASE WHEN _headers @> '[["__value_schema_id"]]' THEN _headers END)
         WITH ORDINALITY AS header (pair, number)
     CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(pair -> 1) WHEN 'string' THEN convert_to(pair ->> 1, 'UTF8')
                                     WHEN 'object' THEN decode(pair -> 1 ->> 'base64', 'base64') END) AS value (named)
     WHERE pair ->> 0 = '__value_schema_id' ORDER BY number DESC LIMIT 1),
    CASE WHEN length(_value) > 5 THEN substring(_value FROM 6 FOR 1 + get_byte(_value, 5)) ELSE '' END)
