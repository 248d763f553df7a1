"""The DAG files as Airflow's parser meets them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.model.request import FIELDS, Request, parse_request
from offset_ledger.outside.connections import Connection, environment_name
from tests.dags.fresh import answer_of
from tests.paths import ROOT

_LOOK = """
import json, runpy, sys
files = {file: runpy.run_path(file) for file in sys.argv[1:]}
from airflow.sdk import DAG
heavy = ["great_expectations", "pyspark", "kafka", "psycopg2", "pyarrow", "pandas"]
print(json.dumps({
    "heavy": [name for name in heavy if name in sys.modules],
    "dags": {file: {k: {
        "tasks": {t.task_id: sorted(t.downstream_task_ids) for t in d.tasks},
        "types": {t.task_id: type(t).__name__ for t in d.tasks},
        "retries": {t.task_id: t.retries for t in d.tasks},
        "outlets": {t.task_id: [a.uri for a in t.outlets] for t in d.tasks if t.outlets},
        "inlets": {t.task_id: [a.uri for a in t.inlets] for t in d.tasks if t.inlets},
        "names": {a.uri: a.name for t in d.tasks for a in [*t.inlets, *t.outlets]},
        "rules": {t.task_id: str(getattr(t.trigger_rule, "value", t.trigger_rule)) for t in d.tasks},
        "params": {name: d.params.get_param(name).serialize() for name in d.params},
        "gates": {t.task_id: {"options": t.options, "defaults": t.defaults,
                              "params": {n: t.params.get_param(n).serialize() for n in t.params},
                              "assigned": t.assigned_users,
                              "seconds": t.response_timeout.total_seconds()}
                  for t in d.tasks if hasattr(t, "options")},
        "deadlines": [[a.interval.total_seconds(), a.callback.path] for a in d.deadline or []],
        "watchers": [w.trigger.serialize()[0]
                     for a in getattr(getattr(d.timetable, "asset_condition", None), "objects", [])
                     for w in a.watchers],
        "doc": d.doc_md, "tags": sorted(d.tags), "owner": d.owner, "catchup": d.catchup,
        "timetable": type(d.timetable).__name__, "max_active_runs": d.max_active_runs,
        "rendered": list(stage.template_fields),
        "stage": {f: str(getattr(stage, f)) for f in stage.template_fields},
    } for k, d in found.items() if isinstance(d, DAG) for stage in d.tasks if stage.label == "stage"}
        for file, found in files.items()},
}))
"""


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The DAGs of this project, of a file that lists topics, and of one that has a pattern, in the process of one."""
    folder = tmp_path_factory.mktemp("airflow")
    listed, matched = folder / "listed", folder / "matched"
    files = [ROOT / "dags" / "ingest.py", with_flights(listed, LISTED), with_flights(matched, MATCHED)]
    found = answer_of(_LOOK, folder, *map(str, files))
    return {**found, "dags": dict(zip(("ours", "listed", "matched"), found["dags"].values(), strict=True))}


@pytest.fixture(scope="module")
def parsed(looked: Any) -> Any:
    return looked["dags"]["ours"]


LISTED, MATCHED = "topics: [orders.eu, orders.us]", "topic_pattern: orders[.].+"


def with_flights(folder: Path, topics: str = "topic: flights.events", more: str = "") -> Path:
    """The file of the ingest DAGs in a folder with the pipeline of flights alone."""
    (folder / "pipelines").mkdir(parents=True)
    text = (ROOT / "dags" / "pipelines" / "flights.yaml").read_text()
    (folder / "pipelines" / "flights.yaml").write_text(re.sub("topic: flights.events", topics, text) + more)
    return Path(shutil.copy(ROOT / "dags" / "ingest.py", folder))


def test_there_is_one_dag_for_each_pipeline_file(parsed: Any) -> None:
    files = {f"ingest_{path.stem}" for path in (ROOT / "dags" / "pipelines").glob("*.yaml")}
    assert set(parsed) == files


def test_parsing_imports_nothing_heavy(looked: Any) -> None:
    assert looked["heavy"] == []


def test_the_steps_follow_each_other(parsed: Any) -> None:
    assert parsed["ingest_flights"]["tasks"] == {
        "plan": ["approve_loss", "stage", "stage_ahead"],
        "approve_loss": ["stage"],
        "stage": ["stage_ahead", "validate"],
        "stage_ahead": [],
        "validate": ["approve_batch", "commit"],
        "approve_batch": ["commit"],
        "commit": ["report"],
        "report": [],
    }


def test_what_follows_a_question_runs_with_and_without_it(parsed: Any) -> None:
    rules = parsed["ingest_flights"]["rules"]
    after = {task for task, rule in rules.items() if rule == "none_failed_min_one_success"}
    assert after == {"stage", "commit"}
    assert {rule for task, rule in rules.items() if task not in after} == {"all_success"}


def test_no_answer_in_time_is_a_no(parsed: Any) -> None:
    gates = parsed["ingest_flights"]["gates"]
    assert {task: gate["options"] for task, gate in gates.items()} == {
        "approve_loss": ["Approve", "Reject"],
        "approve_batch": ["Approve", "Abandon", "Reject"],
    }
    assert all(gate["defaults"] == ["Reject"] and gate["seconds"] == 86400 for gate in gates.values())
    assert all(gate["assigned"] == [] for gate in gates.values())


def test_the_form_of_a_question_requires_a_reason_and_makes_up_none(parsed: Any) -> None:
    for gate in parsed["ingest_flights"]["gates"].values():
        assert list(gate["params"]) == ["why"]
        why = gate["params"]["why"]
        # Airflow's form marks a field as required, and keeps the buttons disabled, where null is no value of it.
        assert (why["value"], why["schema"]["type"]) == ("", "string")


_ANSWERS = """
import json, runpy, sys
from datetime import UTC, datetime
from airflow.sdk.exceptions import AirflowFailException
from offset_ledger.interfaces.airflow import gates
import offset_ledger.steps.decide.answers as answers

kept = []
answers.answer_question = lambda *given: kept.append([str(given[2]), given[3].who, given[4]]) or given[2]

class Ti:
    def xcom_pull(self, **_): return 1

task = runpy.run_path(sys.argv[1])["ingest_flights"].get_task("approve_batch")
for chosen, given, user in json.loads(sys.argv[2]):
    by = {"id": user, "name": user} if user else None
    event = {"chosen_options": [chosen], "params_input": given, "responded_by_user": by}
    try:
        task.execute_complete({"ti": Ti()}, {**event, "responded_at": datetime.now(UTC), "timedout": not user})
    except AirflowFailException as error:
        kept[-1].append(str(error))
print(json.dumps(kept))
"""


def test_a_reason_is_kept_as_it_was_given_and_none_is_made_up(tmp_path: Path) -> None:
    file = with_flights(tmp_path / "dags")
    answers = [
        ["Approve", {"why": "a new state, seen"}, "ann"],
        *(["Approve", given, "ann"] for given in ({}, {"why": None}, {"why": ""}, {"why": "  "})),
        ["Reject", {"why": ""}, None],
    ]
    nobody = "nobody (no answer in time)"
    assert answer_of(_ANSWERS, tmp_path, str(file), json.dumps(answers), as_task=True) == [
        ["approve", "ann", "a new state, seen"],
        *[["approve", "ann", "none given"]] * 4,
        ["reject", nobody, "none given", f"rejected by {nobody}; why: none given; nothing was changed"],
    ]


def test_every_field_of_the_form_has_a_description_and_a_default_that_asks_for_the_next_batch(parsed: Any) -> None:
    params = parsed["ingest_flights"]["params"]
    assert list(params) == ["action", "limit", "dry_run", "since", "until", "scan", "fill", "ranges", "batch_id", "why"]
    assert set(params) == set(FIELDS) - {"topic"}
    assert all(param["description"] for param in params.values())
    assert parse_request({name: param["value"] for name, param in params.items()}) == Request()
    sections = {name: param["schema"].get("section") for name, param in params.items()}
    assert sections["since"] == sections["until"] is not None
    assert len(set(sections.values())) == 4


def test_of_several_topics_each_has_its_own_tasks_and_the_form_may_name_one(looked: Any) -> None:
    found = looked["dags"]["listed"]["ingest_flights"]
    assert found["tasks"] == {
        "topics": sorted(set(found["tasks"]) - {"topics"}),
        "topic.plan": ["topic.approve_loss", "topic.stage"],
        "topic.approve_loss": ["topic.stage"],
        "topic.stage": ["topic.validate"],
        "topic.validate": ["topic.approve_batch", "topic.commit"],
        "topic.approve_batch": ["topic.commit"],
        "topic.commit": ["topic.report"],
        "topic.report": [],
    }
    assert set(found["params"]) == set(FIELDS)
    assert found["inlets"]["topic.commit"] == [
        "offset-ledger://kafka_default/orders.eu",
        "offset-ledger://kafka_default/orders.us",
    ]
    assert looked["dags"]["matched"]["ingest_flights"]["tasks"] == found["tasks"]


def test_stage_is_a_spark_submit_whose_rendered_fields_contain_no_connection(parsed: Any) -> None:
    dag = parsed["ingest_flights"]
    assert dag["types"]["stage"] == "StageOperator"
    shown = json.dumps(dag["stage"])
    assert "AIRFLOW_CONN" not in shown.replace("|AIRFLOW_CONN", "")
    assert "bootstrap.servers" not in shown


def test_the_dag_says_what_it_is(parsed: Any) -> None:
    dag = parsed["ingest_flights"]
    assert dag["timetable"] == "CronDataIntervalTimetable"
    assert dag["catchup"] is False
    assert dag["owner"] == "data-platform"
    assert "offset-ledger" in dag["tags"]
    assert "public.flights" in dag["doc"]
    assert dag["outlets"] == {"commit": ["offset-ledger://postgres_default/public.flights"]}
    assert dag["inlets"] == {"commit": ["offset-ledger://kafka_default/flights.events"]}
    assert dag["deadlines"] == []
    assert all(retries == 3 for retries in dag["retries"].values())


def test_known_connections_give_uris_of_openlineage_and_the_file_its_own_deadline_and_alarm(tmp_path: Path) -> None:
    file = with_flights(
        tmp_path / "dags", more="freshness: 20m\nanswer_within: 90s\napprovers: [ann]\nwake_on_data: true\n"
    )
    kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": "one:9092,two:9092"})
    postgres = Connection("postgres_default", "postgres", "db", 5433, "shop", "me", "secret")
    known = {environment_name(each.conn_id): each.to_json() for each in (kafka, postgres)}
    dag = answer_of(_LOOK, tmp_path, str(file), **known)["dags"][str(file)]["ingest_flights"]
    assert dag["inlets"] == {"commit": ["kafka://one:9092/flights.events"]}
    assert dag["outlets"] == {"commit": ["postgres://db:5433/shop/public/flights"]}
    assert set(dag["names"].values()) == {"kafka_default/flights.events", "postgres_default/public.flights"}
    assert dag["deadlines"] == [[1200.0, "offset_ledger.interfaces.airflow.callbacks.late"]]
    assert {gate["seconds"] for gate in dag["gates"].values()} == {90.0}
    assert [gate["assigned"] for gate in dag["gates"].values()] == [[{"id": "ann", "name": "ann"}]] * 2
    assert dag["timetable"] == "AssetOrTimeSchedule"
    assert dag["watchers"] == ["offset_ledger.interfaces.airflow.triggers.NewRecords"]
