# One image for Airflow, Spark and the command line: what `make install` installs, in the same versions, without what only tests need.
# Debian 12, because its Java is 17, which Spark 4 runs on; Debian 13 has none older than 21.
FROM python:3.11-slim-bookworm AS base
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

FROM base AS build
WORKDIR /build
RUN python -m venv /opt/venv
COPY requirements-image.lock requirements-uv.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements-uv.lock \
    && uv pip sync --no-cache --compile-bytecode --python /opt/venv/bin/python --require-hashes requirements-image.lock
# .dockerignore is an allow-list.
COPY . .
RUN uv build --no-cache --wheel --out-dir dist --build-constraints requirements.lock --require-hashes . \
    && uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python --no-deps dist/*.whl

FROM base
# Volumes take over the owner of the folder they are first mounted on.
RUN useradd --uid 50000 --create-home offset-ledger \
    && install --directory --owner offset-ledger --group offset-ledger \
       /var/lib/airflow /var/lib/airflow/logs /var/lib/airflow/login /var/lib/offset-ledger /var/lib/offset-ledger/reports
COPY --from=build /opt/venv /opt/venv
WORKDIR /opt/offset-ledger
COPY --from=build /build/dags dags
COPY --from=build /build/jobs jobs
COPY --from=build /build/plugins plugins
COPY --from=build /build/expectations expectations
# The scheduler imports once what each task needs.
RUN install --directory /var/lib/airflow/config \
    && printf 'from offset_ledger.interfaces.airflow.preload import preload\n\npreload()\n' > /var/lib/airflow/config/airflow_local_settings.py
ENV AIRFLOW_HOME=/var/lib/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/offset-ledger/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/offset-ledger/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    GX_ANALYTICS_ENABLED=false \
    OFFSET_LEDGER_HOME=/var/lib/offset-ledger \
    OFFSET_LEDGER_REPORTS=/var/lib/offset-ledger/reports \
    PYSPARK_PYTHON=/opt/venv/bin/python
USER offset-ledger
CMD ["offset-ledger", "--help"]
