WITH written AS (
    {merge}
    -- t is the row as it was stored: a trigger may have made another one of it.
    RETURNING merge_action() AS action, s._partition, s._deleted, {whole} AS whole,
              CASE WHEN ({stored_order}, t._batch_id)
                        IS DISTINCT FROM ({order}, %(batch_id)s) THEN {event} END AS wrong
)
{counts}
