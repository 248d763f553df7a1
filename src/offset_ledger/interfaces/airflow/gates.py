"""Questions in Airflow's Required Actions: a run is deferred, without a worker slot, until somebody answers.

A gate asks only if the ledger says that there is something to ask, so clearing it is safe. The question, the answer,
the user and the time are recorded in ``offset_ledger.decision``. No answer in time counts as reject.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from offset_ledger.interfaces.airflow.callbacks import LEDGER_TAB, question_asked, run_link
from offset_ledger.interfaces.airflow.form import request_of
from offset_ledger.interfaces.airflow.steps import airflow_failures, batch_id_of, planned_at_once, read_pipeline
from offset_ledger.model.batch import current_origin
from offset_ledger.model.questions import Question, QuestionAnswer
from offset_ledger.pipeline_file.pipeline import Pipeline

_NOBODY = "nobody (no answer in time)"
_NO_REASON = "none given"


class Gate(HITLOperator):
    """A question that is asked only if the ledger needs an answer."""

    template_fields = ("topic",)

    def __init__(
        self,
        *,
        pipeline_file: str,
        answers: tuple[QuestionAnswer, ...],
        answer_within: timedelta,
        approvers: tuple[str, ...],
        topic: str | None = None,
        **kwargs: Any,
    ) -> None:
        about = "Required; recorded in the ledger with the answer."
        # With this default the form requires it, and Airflow may take it as given where nobody answers in time.
        why = Param("", about, source="task", type="string", title="Why")
        kwargs.pop("params", None)  # Airflow hands in the trigger form of the DAG: no part of the question
        super().__init__(
            subject="Decision required",
            options=[answer.value.capitalize() for answer in answers],
            defaults=QuestionAnswer.REJECT.value.capitalize(),
            params={"why": why},
            assigned_users=[{"id": each, "name": each} for each in approvers],
            response_timeout=answer_within,
            **kwargs,
        )
        self.pipeline_file = pipeline_file
        self.topic = topic

    def execute(self, context: Context) -> Any:
        """Ask and defer, or continue at once."""
        from offset_ledger.steps.decide.answers import record_question

        with airflow_failures():
            pipeline = read_pipeline(self.pipeline_file, self.topic)
            question = self.question(pipeline, context)
            if question is None and self.topic and planned_at_once(context["ti"]):
                raise AirflowSkipException("nothing to ask")  # Airflow skips no task of a mapped group beforehand
            if question is None:
                return self.go_on(pipeline, context)
            decision_id = record_question(pipeline, question)
        context["ti"].xcom_push("decision_id", decision_id)
        question_asked(pipeline, question, context)
        self.subject, self.body = question.subject(), question.body(run_link(context, LEDGER_TAB))
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Record the answer and act on it."""
        from offset_ledger.steps.decide.answers import answer_question

        given = super().execute_complete(context, event)
        answer, person = QuestionAnswer(given["chosen_options"][0].lower()), given["responded_by_user"]
        origin = replace(current_origin(), who=person["name"] if person else _NOBODY)
        why = str(given["params_input"].get("why") or "").strip() or _NO_REASON
        decision_id = context["ti"].xcom_pull(task_ids=self.task_id, key="decision_id")
        with airflow_failures():
            pipeline = read_pipeline(self.pipeline_file, self.topic)
            if answer_question(pipeline, int(decision_id), answer, origin, why) is QuestionAnswer.REJECT:
                raise AirflowFailException(f"rejected by {origin.who}; why: {why}; nothing was changed")
            return self.go_on(pipeline, context)

    def validate_params_input(self, params_input: Mapping[str, Any]) -> None:
        """Accept the input: an answer by Airflow's REST API may have no reason."""

    @abstractmethod
    def question(self, pipeline: Pipeline, context: Context) -> Question | None:
        """Return the question that has to be asked now, if there is one."""

    def go_on(self, pipeline: Pipeline, context: Context) -> int | None:  # noqa: ARG002
        """The result of the task once there is nothing to ask."""
        return None


class LossGate(Gate):
    """A gate that asks about lost offsets, a changed log or a changed schema; then it plans a batch, or resumes it."""

    def question(self, pipeline: Pipeline, context: Context) -> Question | None:
        """Return the question about the loss, or the changed schema, as it is now."""
        from offset_ledger.interfaces.airflow.concurrent_runs import other_run
        from offset_ledger.steps.decide.answers import question_before_staging

        if busy := other_run(pipeline, context["ti"]):
            raise AirflowSkipException(f"nothing to do: {busy}")
        return question_before_staging(pipeline)

    def go_on(self, pipeline: Pipeline, context: Context) -> int | None:
        """Plan the batch."""
        from offset_ledger.steps.plan.step import plan

        planned = plan(pipeline, current_origin(), request_of(context).limit, take_rejected=True)
        self.log.info(planned.message)
        return planned.batch.batch_id if planned.batch else None


class BatchGate(Gate):
    """The gate that asks whether a rejected batch commits what was validated, is abandoned, or stays rejected."""

    def question(self, pipeline: Pipeline, context: Context) -> Question | None:
        """Return the question about the batch; None if it is not, or no longer, rejected."""
        from offset_ledger.steps.decide.answers import batch_question

        batch_id = batch_id_of(context["ti"])
        assert batch_id is not None
        return batch_question(pipeline, batch_id)
