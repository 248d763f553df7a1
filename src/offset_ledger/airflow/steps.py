"""The tasks plan and validate: each calls its step, and skips the question after it where there is nothing to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.bases.skipmixin import SkipMixin
from airflow.sdk.exceptions import AirflowSkipException

from offset_ledger.airflow.failures import airflow_failures
from offset_ledger.airflow.form import by_person, request_of
from offset_ledger.airflow.occasions import rejected
from offset_ledger.airflow.planned_batch import batch_id_of, read_pipeline
from offset_ledger.config.model import Pipeline
from offset_ledger.errors import ContradictoryRequest, LostRange, UnknownTopic
from offset_ledger.model.request import BUSY, NOTHING_NEW, OUTCOME, Request, RunAction

if TYPE_CHECKING:
    from airflow.sdk import Context

    from offset_ledger.model.questions import Question
    from offset_ledger.plan.step import PlannedBatch

_DECISIONS = (RunAction.APPROVE, RunAction.ABANDON, RunAction.SKIP)


class PlanOperator(BaseOperator, SkipMixin):
    """Check the request and plan its batch, whose id is the result.

    A lost range, a topic that is gone, or a schema to decide about leaves the task ``question`` to run; in every other
    case it is skipped, and so is all that follows where there is no batch.
    """

    inherits_from_skipmixin = True
    template_fields = ("topic",)

    def __init__(self, *, pipeline_file: str, question: str, topic: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline_file = pipeline_file
        self.topic = topic
        self.question = question

    def execute(self, context: Context) -> None:
        """Plan, or show what would be planned, or decide; the log says which."""
        from offset_ledger.airflow.concurrent_runs import one_run_plans, other_run

        with airflow_failures():
            request = request_of(context)
            if request.topic and self.topic is None:
                raise ContradictoryRequest(f"the pipeline reads one topic; clear topic, found {request.topic}")
            pipeline = read_pipeline(self.pipeline_file, self.topic)
            if request.dry_run:
                self._preview(pipeline, request, context)
            with one_run_plans(pipeline):
                if request.action is RunAction.NEXT and (busy := other_run(pipeline, context["ti"])):
                    self._nothing(context, BUSY, f"nothing to do: {busy}")
                batch_id = self._plan(pipeline, request, context)
        if batch_id is not None:
            context["ti"].xcom_push("return_value", batch_id)
            self.skip(context["ti"], [task for task in self.downstream_list if task.label == self.question])

    def _plan(self, pipeline: Pipeline, request: Request, context: Context) -> int | None:
        from offset_ledger.operations.losses import loss_question
        from offset_ledger.operations.requests import plan_request
        from offset_ledger.report.consumer_group import mirror

        try:
            planned = plan_request(pipeline, request, by_person(context))
        except (LostRange, UnknownTopic) as error:
            question = loss_question(pipeline) if request.action is RunAction.NEXT else None
            if question is None:
                raise
            self.log.warning("%s; the task %s asks: %s", error, self.question, question.text)
            return None
        self.log.info(planned.message)
        if request.action is RunAction.NEXT and (question := self._in_the_way(pipeline, planned)):
            self.log.warning("the task %s asks: %s", self.question, question.text)
            return None
        if planned.batch is not None:
            return planned.batch.batch_id
        if request.action is RunAction.SKIP:
            mirror(pipeline, backwards=True)
        if request.action in _DECISIONS:
            self.skip(context["ti"], self.downstream_list)
        self._nothing(context, NOTHING_NEW, planned.message)
        return None

    def _in_the_way(self, pipeline: Pipeline, planned: PlannedBatch) -> Question | None:
        """A loss that an open batch would meet at its read, since it was planned, or a schema to decide about."""
        from offset_ledger.operations.accept_topic import schema_question
        from offset_ledger.operations.answers import question_before_staging

        if planned.batch is None or planned.batch.judged:
            return None
        return question_before_staging(pipeline) if planned.resumed else schema_question(pipeline)

    def _preview(self, pipeline: Pipeline, request: Request, context: Context) -> None:
        from offset_ledger.operations.preview import preview

        shown = preview(pipeline, request)
        self.log.info("%s", shown)
        context["ti"].xcom_push("preview", shown.data)
        self.skip(context["ti"], self.downstream_list)

    def _nothing(self, context: Context, outcome: str, message: str) -> None:
        context["ti"].xcom_push(OUTCOME, outcome)
        raise AirflowSkipException(message)


class ValidateOperator(BaseOperator, SkipMixin):
    """Judge the staged batch; a rejected one leaves the task ``question`` to run, in every other case it is skipped."""

    inherits_from_skipmixin = True
    template_fields = ("topic",)

    def __init__(self, *, pipeline_file: str, question: str, topic: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline_file = pipeline_file
        self.topic = topic
        self.question = question

    def execute(self, context: Context) -> None:
        """Judge; a rejected batch gets its quality page before anybody is asked."""
        from offset_ledger.model.batch import current_origin
        from offset_ledger.model.states import State
        from offset_ledger.report.step import report
        from offset_ledger.validate.step import validate

        batch_id = batch_id_of(context["ti"])
        assert batch_id is not None
        with airflow_failures():
            pipeline = read_pipeline(self.pipeline_file, self.topic)
            batch, _ = validate(pipeline, batch_id, current_origin())
            if batch.state is State.REJECTED:
                self.log.warning("%s: %s; quality page %s", batch, batch.reasons, report(pipeline, batch_id))
                rejected(pipeline, batch, context)
                return
        self.log.info("%s passed", batch)
        self.skip(context["ti"], [task for task in self.downstream_list if task.label == self.question])
