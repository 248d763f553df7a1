"""The sandbox: Kafka, Postgres, Spark and Airflow as processes of this machine, for demo, labs and tests."""
