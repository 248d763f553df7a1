"""The ledger page in Airflow's UI: it reads the ledger and changes nothing itself."""
