"""Airflow: the DAG builders, their operators, the trigger form, the questions to people."""
