-- The statements that give a view that is made again the rights, the owner's aside, and the comment that it has now.
SELECT format('GRANT %%s ON %%I.%%I TO %%s%%s', privilege_type, nspname, relname,
              CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
              CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace, aclexplode(relacl)
WHERE c.oid = to_regclass(format('%%I.%%I', %(schema)s, %(view)s)) AND grantee <> relowner
UNION ALL
SELECT format('COMMENT ON VIEW %%I.%%I IS %%L', nspname, relname, obj_description(c.oid, 'pg_class'))
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE c.oid = to_regclass(format('%%I.%%I', %(schema)s, %(view)s)) AND obj_description(c.oid, 'pg_class') IS NOT NULL
