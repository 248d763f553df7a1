-- An event whose row does not stand as it was decided: older than a staged one, or with other values than were written.
SELECT min({event})
FROM {classes} AS s LEFT JOIN {target} AS t ON {same_key}{joined}
WHERE ({suspects}) AND (CASE WHEN s._class IN ('i', 'u', 'f') THEN {miswritten} ELSE {newer} END{group_miswritten})
