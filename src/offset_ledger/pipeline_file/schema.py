"""The keys of a pipeline file as a JSON Schema (draft 2020-12); run as a module, it prints the schema.

Editors complete and check files with it. What a schema cannot say (paths inside other paths, cron dates that never
come, a scale above its precision) the reader adds.
"""

import json
from typing import Final

from offset_ledger.pipeline_file.keys import Key, Kind, Object, Section, section
from offset_ledger.pipeline_file.names import PIPELINE_PATTERN
from offset_ledger.pipeline_file.notify import NOTIFY
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.pipeline_file.record import RECORD
from offset_ledger.pipeline_file.sections import LIMITS, QUALITY, SOURCE, STAGE, TARGET
from offset_ledger.pipeline_file.spark import SPARK
from offset_ledger.pipeline_file.values import DURATION, FLAG, SCHEDULE, TEXT, different, filled_text, matching, or_null

NAME = matching(PIPELINE_PATTERN, "a pipeline name", "write at most 63 of a-z, 0-9 and _, beginning with a letter")
TAGS = different(filled_text(100, "a tag"), twice="the tag ")
APPROVERS = different(
    filled_text(), "the user ", "a list of Airflow users", "write [ann, ben], or leave it out", minItems=1
)

FILE: Kind[Section] = section(
    Pipeline,
    "One Kafka topic into one Postgres table.",
    {
        "pipeline": Key(NAME, "The name of the pipeline; no other has it.", ("flights",), attribute="name"),
        "description": Key(TEXT, "What it is for, in the words of its users.", ("Flights that left New York",)),
        "owner": Key(filled_text(), "Who answers for it.", ("data-platform",)),
        "tags": Key(TAGS, "Airflow tags.", (["flights"],)),
        "schedule": Key(
            SCHEDULE,
            "A cron expression of five fields or one of Airflow's presets; null: only by hand.",
            ("*/15 * * * *", "@hourly"),
        ),
        "freshness": Key(
            or_null(DURATION),
            "The deadline of a run, from when it is queued; Airflow's deadline alert reports a later one. null: no "
            "deadline.",
            ("1h",),
        ),
        "answer_within": Key(
            DURATION, "How long a run waits for an answer in Required Actions; without one it is rejected."
        ),
        "approvers": Key(
            APPROVERS,
            "The ids of the Airflow users who may answer in Required Actions; absent: all whom Airflow lets.",
            (["ann", "ben"],),
        ),
        "wake_on_data": Key(FLAG, "New records start a run too, besides the schedule.", (True,)),
        "notify": Key(
            NOTIFY,
            "Who is notified of what needs a person, by Airflow's notifiers.",
            ([{"slack": {"connection": "slack_default", "channel": "orders"}}],),
        ),
        "source": SOURCE,
        "record": RECORD,
        "target": TARGET,
        "quality": QUALITY,
        "limits": LIMITS,
        "stage": STAGE,
        "spark": SPARK,
    },
    ("pipeline", "source", "record", "target"),
    lambda said: said,
    also={
        "if": {"properties": {"target": {"properties": {"merge": {"const": "append"}}, "required": ["merge"]}}},
        "then": {
            "properties": {
                "record": {
                    "properties": {
                        **dict.fromkeys(("event_id", "key", "delete_when"), False),
                        "tombstone": {"not": {"const": "delete"}},
                    }
                },
                "source": {"properties": {"envelope": False}},
                "target": {"properties": {"deletes": False, "on_conflict": {"not": {"const": "quarantine"}}}},
            }
        },
        "else": {
            "properties": {
                "record": {
                    "required": ["publish_at"],
                    "oneOf": [{"required": ["event_id"]}, {"required": ["key"]}],
                }
            }
        },
    },
)
PIPELINE: Final[Object] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "offset-ledger pipeline",
    **FILE.schema,
}


def schema_text() -> str:
    """Return the text of docs/pipeline.schema.json."""
    return json.dumps(PIPELINE, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
