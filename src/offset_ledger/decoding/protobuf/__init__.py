"""Protobuf records: schemas by protoc, an exact reader, and one that reads many records in lockstep."""
