"""The demo of record formats: flights in Avro, Protobuf and JSON Schema, the Avro schema changing twice on the way."""
