UPDATE {kept} AS t
SET {group} = ROW(({given})._timestamp, ({given})._topic, ({given})._partition, ({given})._offset, ({given})._timestamp, ({given})._batch_id)
WHERE ({given})._timestamp IS NOT NULL
