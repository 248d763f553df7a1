"""The demo of record formats: flights in Avro, whose schema changes twice, Protobuf, JSON Schema and change events."""
