"""The section ``spark`` of a pipeline file: the cluster on which Spark stages a batch, and its resources."""

import re
from collections.abc import Mapping

from offset_ledger.pipeline_file.keys import Key, Kind, read_mapping, read_or_note, section
from offset_ledger.pipeline_file.located import CORE, Refused, Value, describe, is_text, quoted
from offset_ledger.pipeline_file.pipeline import DeployMode, Resources, Spark
from offset_ledger.pipeline_file.values import CONNECTION, boolean, choice, matching, whole_number

MEMORY = matching("^[1-9][0-9]*[kmgt]$", "an amount of memory", "write it as Spark does, for example 512m or 2g")
QUEUE = matching("^[A-Za-z0-9_.-]+$", "a YARN queue", "write A-Z, a-z, 0-9, _, . and -")
COUNT = whole_number(100_000)
NAME_PATTERN = r"^spark\.[A-Za-z0-9_.-]+$"
_SECRET_WORDS = ("password", "secret", "token", "jaas", "airflow_conn")
SECRET_PATTERN = "|".join("".join(f"[{c.upper()}{c}]" if c.isalpha() else c for c in word) for word in _SECRET_WORDS)
# Their values are names: of a Kubernetes Secret, and of a key in it.
NO_SECRET_PATTERN = r"^spark\.kubernetes\.(?:driver|executor)\.(?:secrets|secretKeyRef)\."
_EXAMPLE = {"spark.task.maxFailures": 2}

_RESOURCES = {
    "spark.driver.memory": "driver_memory",
    "spark.driver.cores": "driver_cores",
    "spark.executor.memory": "executor_memory",
    "spark.executor.cores": "executor_cores",
    "spark.executor.instances": "executors",
    "spark.cores.max": "total_executor_cores",
}
_SHIPPED = ("spark.jars", "spark.files", "spark.submit.pyFiles", "spark.yarn.dist.files", "spark.yarn.dist.jars")
# Properties that offset-ledger sets itself, and what to do instead.
OWN: Mapping[str, str] = {
    "spark.master": "write the master in the connection",
    "spark.submit.deployMode": "write spark.deploy_mode",
    "spark.yarn.queue": "write spark.queue",
    "spark.driver.extraJavaOptions": "write spark.driver.defaultJavaOptions, which Java gets too",
    **{name: f"write spark.resources.{key}" for name, key in _RESOURCES.items()},
    **dict.fromkeys(_SHIPPED, "leave it out: the job is shipped with what it needs"),
    "spark.redaction.regex": "leave it out: it keeps secrets out of Spark's logs and events",
}


def _setting(value: Value) -> str:
    name, node = value.key, value.node
    if not re.fullmatch(NAME_PATTERN[1:-1], name):
        raise Refused(f"{quoted(name)} is not a setting of Spark", "write its whole name, which begins with spark.")
    if name in OWN:
        raise Refused("offset-ledger sets this itself", OWN[name])
    if re.search(SECRET_PATTERN, name) and not re.search(NO_SECRET_PATTERN, name):
        raise Refused("this looks like a secret, and the file holds none", "put it in the connection's extra")
    if is_text(node) or node.tag in (CORE + "int", CORE + "float"):
        return str(node.value)
    if node.tag == CORE + "bool":
        return str(boolean(value)).lower()
    raise Refused(f"expected a text, a number, true or false, found {describe(node)}", "write the setting's value")


def _settings(value: Value) -> dict[str, str]:
    entries = read_mapping(value, _EXAMPLE)
    kind = Kind(_setting, {})
    return {name: text for name, entry in entries.items() for text in read_or_note(kind, entry)}


_CONF_SCHEMA = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
    "propertyNames": {
        "pattern": NAME_PATTERN,
        "not": {
            "anyOf": [{"enum": sorted(OWN)}, {"pattern": SECRET_PATTERN, "not": {"pattern": NO_SECRET_PATTERN}}],
        },
    },
}

RESOURCES: Kind[Resources] = section(
    Resources,
    "What the Spark application asks of its cluster; what is left out is as Spark and the cluster have it.",
    {
        "driver_memory": Key(MEMORY, "Heap of the driver.", ("1g",)),
        "driver_cores": Key(COUNT, "Cores of the driver, with deploy_mode cluster.", (1,)),
        "executor_memory": Key(MEMORY, "Heap of each executor; its Python workers need memory beside it.", ("2g",)),
        "executor_cores": Key(COUNT, "Slices that each executor stages at the same time.", (2,)),
        "executors": Key(COUNT, "Executors, on YARN and Kubernetes.", (4,)),
        "total_executor_cores": Key(COUNT, "Cores of all executors together, on a standalone cluster.", (8,)),
    },
)

SPARK: Kind[Spark] = section(
    Spark,
    "Where Spark stages a batch, and how.",
    {
        "connection": Key(CONNECTION, "Where Spark is: the id of an Airflow connection.", ("spark_yarn",)),
        "deploy_mode": Key(
            choice(DeployMode), "Where the driver runs: on the machine of the task, or on one of the cluster."
        ),
        "queue": Key(QUEUE, "The YARN queue; the connection's where absent.", ("etl",)),
        "resources": RESOURCES,
        "conf": Key(
            Kind(_settings, _CONF_SCHEMA),
            "Settings of Spark by their names; none that offset-ledger sets for exactness or safety, and no secrets.",
            (_EXAMPLE,),
        ),
    },
)
