"""The local stack: Kafka, Postgres and Airflow as processes of this machine, for demo, tests and development."""
