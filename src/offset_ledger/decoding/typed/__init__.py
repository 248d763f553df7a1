"""Typed values, as Avro and Protobuf have them: each comes with a type, which a column takes exactly or not at all."""
