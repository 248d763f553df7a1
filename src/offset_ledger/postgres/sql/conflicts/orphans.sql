-- An orphan loses at once, as to a stored row; whoever would lose to it waits for the next round.
SELECT {place} AS _place, {key}, 2 AS _rank, _runs[{place}] AS _run, _partition, _offset, concat_ws(', ', {shown}) AS _shown,
       true AS _loses, NULL::text AS _holder, true AS _to_stored, NULL::integer AS _to_partition, NULL::bigint AS _to_offset
FROM winner AS v WHERE {holds} AND {is_orphan}
