SELECT attname::text AS name, format_type(atttypid, atttypmod) AS type,
       CASE WHEN attgenerated <> '' THEN pg_get_expr(adbin, adrelid) END AS generated
FROM pg_attribute LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)
WHERE attrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND attnum > 0 AND NOT attisdropped
ORDER BY attnum
