"""The ledger page and the audit page: their HTML and static files, a small read-only API and the quality reports.

Every route depends on the user's rights, and a request without a login is refused. Nothing here changes
anything: the page's buttons call Airflow's own REST API.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, JSONResponse
from pydantic import AfterValidator, AwareDatetime

from offset_ledger.errors import OffsetLedgerError, TransientError, UnknownBatch
from offset_ledger.interfaces.page import answers
from offset_ledger.interfaces.page import quarantine as quarantine_answers
from offset_ledger.interfaces.page.answers import AuditFilter, BatchFilter, JsonObject
from offset_ledger.interfaces.page.history import WINDOWS
from offset_ledger.interfaces.page.quarantine import NEWEST, RecordFilter, RecordState
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.operations.audit.finding import Severity
from offset_ledger.operations.status.brokers import BrokerCache
from offset_ledger.operations.status.reader import KnownPipelines
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.steps.report.step import reports_folder


@dataclass(frozen=True, slots=True)
class Site:
    """The data of the routes: the pipelines as their files are now, and the brokers' answers about their topics."""

    known: Callable[[], KnownPipelines]
    brokers: BrokerCache


def create_app(
    rights: Callable[..., Rights], known: Callable[[], KnownPipelines], brokers: BrokerCache | None = None
) -> FastAPI:
    """The page of the pipelines that are ``known``. The dependency ``rights`` returns the user's rights, or refuses."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.site = Site(known, brokers or BrokerCache())
    app.dependency_overrides[user_rights] = rights
    app.include_router(router)
    app.add_exception_handler(OffsetLedgerError, _error_response)
    return app


def user_rights() -> Rights:
    """Refuse every request; the dependency given to :func:`create_app` replaces this."""
    raise HTTPException(401, "Not authenticated")


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


CurrentUser = Annotated[Rights, Depends(user_rights)]
CurrentSite = Annotated[Site, Depends(_site)]


def _pipeline(name: str, user: CurrentUser, site: CurrentSite) -> Pipeline:
    """The pipeline of the path; one that the user may not see does not exist for them."""
    pipeline = site.known().pipelines.get(name) if user.sees(name) else None
    if pipeline is None:
        raise HTTPException(404, f"there is no pipeline {name} that you may see")
    return pipeline


def _visible(known: KnownPipelines, user: Rights) -> tuple[Pipeline, ...]:
    """The pipelines whose DAG the user may read."""
    return tuple(pipeline for name, pipeline in sorted(known.pipelines.items()) if user.sees(name))


def _private(response: Response) -> None:
    """Forbid caches to keep what one user may see."""
    response.headers.update({"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)  # Postgres knows no offset from UTC above 16 hours
    except OverflowError:
        raise ValueError("beyond the calendar") from None


RequestedPipeline = Annotated[Pipeline, Depends(_pipeline)]
UtcTime = Annotated[AwareDatetime, AfterValidator(_in_utc)]
PostgresText = Annotated[str | None, Query(pattern=r"^[^\x00]*$")]
"""A text that Postgres can store: without NUL."""
router = APIRouter(dependencies=[Depends(user_rights), Depends(_private)])


@router.get("/")
def page() -> Response:
    """The page of the ledger."""
    return static_file("index.html")


@router.get("/static/{name:path}")
def static(name: str) -> Response:
    """Style and scripts of both pages."""
    return static_file(name)


@router.get("/api/pipelines")
def overview(user: CurrentUser, site: CurrentSite) -> JsonObject:
    """The pipelines that the user may see."""
    known = site.known()
    problems = known.problems if user.import_errors else ()
    return {"problems": problems, "pipelines": answers.overview(_visible(known, user), user, site.brokers)}


@router.get("/api/pipelines/{name}")
def detail(pipeline: RequestedPipeline, user: CurrentUser, site: CurrentSite) -> JsonObject:
    """One pipeline with its partitions."""
    return answers.detail(pipeline, user, site.brokers, reports_folder())


@router.get("/api/pipelines/{name}/batches")
def batches(
    pipeline: RequestedPipeline,
    before: Annotated[int, Query(ge=1, le=NEWEST)] = NEWEST,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    kind: PostgresText = None,
    state: PostgresText = None,
    dag_id: PostgresText = None,
    run_id: PostgresText = None,
) -> JsonObject:
    """A page of batches, newest first."""
    return answers.batches(pipeline, BatchFilter(before, limit, kind, state, dag_id, run_id), reports_folder())


@router.get("/api/pipelines/{name}/batches/{batch_id}")
def batch(pipeline: RequestedPipeline, batch_id: Annotated[int, PathParameter(ge=1, le=NEWEST)]) -> JsonObject:
    """One batch with its ranges and transitions."""
    return answers.batch(pipeline, batch_id, reports_folder())


@router.get("/api/pipelines/{name}/replay")
def replay(
    pipeline: RequestedPipeline,
    action: Literal["window", "ranges"],
    since: str | None = None,
    until: str | None = None,
    scan: bool = False,
    ranges: str | None = None,
    limit: str | None = None,
) -> JsonObject:
    """The offsets that a replay would read, or why it could not."""
    form = {"action": action, "since": since, "until": until, "scan": scan, "ranges": ranges, "limit": limit}
    return answers.replay(pipeline, form)


@router.get("/api/pipelines/{name}/history")
def history(pipeline: RequestedPipeline, window: Literal["1h", "24h", "7d", "30d"] = "24h") -> list[JsonObject]:
    """The points of the charts."""
    return answers.history(pipeline, WINDOWS[window])


@router.get("/api/pipelines/{name}/completeness")
def completeness(
    pipeline: RequestedPipeline, site: CurrentSite, window: Literal["1h", "24h", "7d", "30d"] = "24h"
) -> JsonObject:
    """Return which hours of each partition are in the table."""
    return answers.completeness(pipeline, WINDOWS[window], site.brokers)


@router.get("/api/pipelines/{name}/quarantine")
def quarantine(
    pipeline: RequestedPipeline,
    user: CurrentUser,
    before: Annotated[str | None, Query(pattern=r"^\d{1,18}:\d{1,18}$")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    state: RecordState = RecordState.UNRESOLVED,
    reason: PostgresText = None,
    partition: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    since: UtcTime | None = None,
    until: UtcTime | None = None,
) -> JsonObject:
    """A page of quarantined records, newest first."""
    batch_id, record_id = map(int, before.split(":")) if before else (NEWEST, NEWEST)
    matching = RecordFilter(batch_id, record_id, limit, state, reason, partition, since, until)
    return quarantine_answers.quarantine(pipeline, matching, user)


@router.get("/api/pipelines/{name}/quarantine/{record_id}")
def quarantined_record(
    pipeline: RequestedPipeline,
    user: CurrentUser,
    record_id: Annotated[int, PathParameter(ge=1, le=NEWEST)],
    whole: bool = False,
) -> JsonObject:
    """One quarantined record; its bytes for those who may edit the DAG: the first ones, or the ``whole`` value."""
    record = quarantine_answers.quarantined_record(pipeline, record_id, user, whole)
    return _or_404(record, f"pipeline {pipeline.name} has no quarantined record {record_id}")


@router.get("/api/pipelines/{name}/refused/{partition}/{offset}")
def refused_record(
    pipeline: RequestedPipeline,
    user: CurrentUser,
    partition: Annotated[int, PathParameter(ge=0, le=2**31 - 1)],
    offset: Annotated[int, PathParameter(ge=0, le=NEWEST)],
) -> JsonObject:
    """One record that the rejected batch refused, whole, for those who may edit the DAG."""
    record = quarantine_answers.whole_refused(pipeline, partition, offset, user)
    return _or_404(record, f"pipeline {pipeline.name} has no rejected batch with a record {partition}:{offset}")


@router.get("/audit")
def audit_page() -> Response:
    """The audit page; in the same folder, so that it has the same style and API."""
    return static_file("audit.html")


@router.get("/api/audits")
def audit_overview(user: CurrentUser, site: CurrentSite) -> JsonObject:
    """The newest audits of the pipelines that the user may see."""
    known = site.known()
    problems = known.problems if user.import_errors else ()
    return {"problems": problems, **answers.newest_audits(_visible(known, user), user, site.brokers)}


@router.get("/api/pipelines/{name}/audits")
def audits(
    pipeline: RequestedPipeline,
    topic: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9._-]{1,249}$")] = None,
    own: bool = True,
    before: UtcTime | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    severity: Severity | None = None,
    rule: Annotated[str | None, Query(pattern=r"^[a-z-]{1,100}$")] = None,
) -> JsonObject:
    """A page of past audits, newest first."""
    matching = AuditFilter(before, limit, severity.value if severity else None, rule)
    return _or_404(answers.audits(pipeline, topic, own, matching), f"pipeline {pipeline.name} has no such topic")


@router.get("/api/pipelines/{name}/audits/{audit_id}")
def audit(pipeline: RequestedPipeline, audit_id: Annotated[int, PathParameter(ge=1, le=NEWEST)]) -> JsonObject:
    """One audit with its result for each rule."""
    return _or_404(answers.audit(pipeline, audit_id), f"pipeline {pipeline.name} has no audit {audit_id}")


# Same origin, so that links between reports carry the session; no script in any case.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox allow-same-origin"
)


@router.get("/reports/{path:path}")
def report(path: str, user: CurrentUser, site: CurrentSite) -> Response:
    """A quality report, if it is one of a pipeline that the user may see."""
    served = find_report(reports_folder(), path)
    if served is None or not user.sees_report(served[0], site.known().pipelines):
        raise HTTPException(404, "there is no report here that you may see")
    return _served(served[1], served[2], _REPORT_POLICY)


def _or_404(answer: JsonObject | None, missing: str) -> JsonObject:
    if answer is None:
        raise HTTPException(404, missing)
    return answer


def _error_response(_: Request, error: Exception) -> Response:
    """Return our own errors with their message: 503 for a transient one, 404 for an unknown batch, else 500."""
    status = 404 if isinstance(error, UnknownBatch) else 503 if isinstance(error, TransientError) else 500
    return JSONResponse({"error": type(error).__name__, "detail": str(error)}, status)


# -- files -----------------------------------------------------------------------------------------------------

_MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)


def static_file(name: str) -> Response:
    """Return a file of ``static/`` by its path there."""
    root = Path(str(files("offset_ledger.interfaces.page").joinpath("static")))
    known = {file.relative_to(root).as_posix(): file for file in root.rglob("*") if file.is_file()}
    path = known.get(name)
    if path is None or path.suffix not in _MEDIA:
        raise HTTPException(404, "there is no such file")
    return _served(path, _MEDIA[path.suffix], _PAGE_POLICY)


def _served(path: Path, media_type: str, policy: str) -> Response:
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
    }
    return FileResponse(path, media_type=media_type, headers=headers)


_REPORTS = {".html": "text/html", ".json": "application/json"}


def find_report(folder: Path, path: str) -> tuple[str, Path, str] | None:
    """Return the first folder below ``folder``, the file and its media type; None if it is no report that exists.

    The path is resolved before it is checked, so neither ``..`` nor a symbolic link leads out of the folder, nor from
    one pipeline's reports to another's: the first folder returned is that of the file that is served.
    """
    root = folder.resolve()
    try:
        file = (root / path.lstrip("/")).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):  # absent, a NUL byte, a loop of links
        return None
    if not file.is_relative_to(root) or not file.is_file():
        return None
    parts = file.relative_to(root).parts
    if len(parts) < 2 or any(part.startswith(".") for part in parts) or file.suffix not in _REPORTS:
        return None
    return parts[0], file, _REPORTS[file.suffix]
