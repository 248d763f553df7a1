(CASE WHEN s._log > {stored_log} THEN true WHEN s._log < {stored_log} THEN false
      WHEN {same_partition} THEN s._offset > {given}._offset ELSE {first} AND ({order}) > ({stored}) END) IS NOT FALSE
