"""Labs: what each delivery semantic, replication setting and producer option loses, measured on real servers."""
