-- Why the headers that were staged differ from those of record s, as far as a NUL byte in a name explains it.
CASE WHEN c.name IN ('headers', '_headers') AND EXISTS (
         SELECT FROM jsonb_array_elements(s._headers::jsonb) AS header
         WHERE jsonb_typeof(header -> 0) = 'object'
           AND position('\x00'::bytea IN decode(header -> 0 ->> 'base64', 'base64')) > 0)
     THEN ' (a header name has a NUL byte, where librdkafka cuts it)' ELSE '' END
