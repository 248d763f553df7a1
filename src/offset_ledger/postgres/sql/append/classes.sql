(SELECT {ranked}, CASE WHEN {is_again} THEN 's' ELSE 'i' END::"char" AS _class FROM {staging} AS s{with_again})
