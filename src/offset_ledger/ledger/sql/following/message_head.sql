CASE WHEN length(_value) > 5 THEN substring(_value FROM 6 FOR 1 + get_byte(_value, 5)) ELSE '' END
