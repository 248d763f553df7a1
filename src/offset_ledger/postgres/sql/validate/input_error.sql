coalesce({refused}, CASE
    WHEN {value} ~* {words} AND {read} !~* {words} THEN 'what it means depends on when it is read'
    WHEN {value} ~ {number} AND {read} ~ {number} AND {value}::numeric <> {read}::numeric{changed} THEN concat('it would become ', {read}) END)
