"""The entry of this package in ``airflow providers list``."""


def provider_info() -> dict[str, str]:
    """The package as Airflow's schema of providers describes one; it brings no connection types of its own."""
    return {
        "package-name": "offset-ledger",
        "name": "Offset ledger",
        "description": "Exactly-once batch ingestion from Kafka to Postgres",
    }
