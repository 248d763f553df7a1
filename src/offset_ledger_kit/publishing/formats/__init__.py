"""Records with a schema: documents become Avro, Protobuf or JSON in Confluent's wire format, exactly or not at all."""
