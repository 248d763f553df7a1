-- Staged rows as the log orders them, and as it orders those that have a group of columns, for each of the groups.
(SELECT s.*, {moments}
 FROM (SELECT s.*, {of_partition}
       FROM (SELECT s.*, {log} AS _log FROM {staging} AS s) AS s
       LEFT JOIN (SELECT t.*, {stored_logs} FROM {target} AS t) AS t ON {same_key}) AS s)
