"""Measurements on real servers: what each delivery semantic, replication setting and producer option loses."""
