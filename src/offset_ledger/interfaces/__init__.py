"""The interfaces that people use: Airflow's DAGs, the command line, the ledger page, the exporter, the Python API."""
