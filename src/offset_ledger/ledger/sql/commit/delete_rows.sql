-- What the batch deletes: its bookkeeping stays, so that no older record brings the row back.
DELETE FROM {table} AS u USING {staging} AS s, {target} AS t
WHERE s._deleted AND {whole} AND {same_key} AND {same_row} AND ({stored_order}) = ({order}) AND t._batch_id = %(batch_id)s
