"""A pipeline file as a :class:`Pipeline`, or every mistake in it at once.

Runs whenever Airflow parses the DAGs: no server is asked and nothing heavy is imported.
"""

import hashlib
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import yaml

from offset_ledger.errors import ConfigurationError, PipelineFileError
from offset_ledger.pipeline_file.contradictions import check_together
from offset_ledger.pipeline_file.envelope import check_envelope, in_envelope, with_unavailable
from offset_ledger.pipeline_file.folder import SUFFIXES, is_pipeline_file, with_defaults
from offset_ledger.pipeline_file.keys import Section
from offset_ledger.pipeline_file.located import Mistakes, Refused, Value, line_of, quoted, read_file
from offset_ledger.pipeline_file.pipeline import Deletes, Limits, Merge, Pipeline, Quality, RecordShape, Target
from offset_ledger.pipeline_file.schema import FILE
from offset_ledger.pipeline_file.source import Source

FOLDER = Path("dags/pipelines")


def parse_pipeline(path: Path) -> Pipeline:
    """The pipeline that a YAML file declares, with the defaults of its folder.

    Raises:
        PipelineFileError: all mistakes of the file, each as ``file:line: what is wrong; what would be right``.
    """
    mistakes = Mistakes(path)
    try:
        data, own = read_file(path)
        document = with_defaults(path, own)
        said = FILE.read(Value("", "", 1, document, mistakes))
        if document is not own or b"${" in data:
            data = yaml.serialize(document, encoding="utf-8", allow_unicode=True, width=float("inf"))
        pipeline = _pipeline(said, path, data)
    except Refused as refused:
        raise PipelineFileError([f"{path}:{refused.line or 1}: {refused}"]) from None
    mistakes.raise_if_any()
    return pipeline


def parse_named(name_or_path: str, folder: Path = FOLDER) -> Pipeline:
    """The pipeline of that name, or of the file with that path; ``NAME@TOPIC`` is one topic of a file with several.

    Raises:
        ConfigurationError: there is none, the name fits more than one, or the file does not read the topic.
        PipelineFileError: as :func:`parse_pipeline`.
    """
    is_file = Path(name_or_path).is_file() or (folder / name_or_path).is_file()
    file, at, topic = ("", "", "") if is_file else name_or_path.rpartition("@")
    pipeline = parse_pipeline(find_pipeline(file if at else name_or_path, folder))
    if not at:
        return pipeline
    if not (pipeline.source.several and pipeline.source.reads(topic)):
        topics = pipeline.source.topic_names
        raise ConfigurationError(f"pipeline {pipeline.name} does not read topic {topic}; it reads {topics}")
    return pipeline.of_topic(topic)


def parse_all(folder: Path = FOLDER) -> tuple[Pipeline, ...]:
    """Return all pipelines of a folder by name; no two may share a name or a target table.

    Raises:
        PipelineFileError: the mistakes of all files.
    """
    parsed, problems = _parse_each(folder)
    if problems := [*problems, *_shared(parsed)]:
        raise PipelineFileError(problems)
    return tuple(sorted(parsed, key=lambda pipeline: pipeline.name))


def parse_good(folder: Path = FOLDER) -> tuple[Pipeline, ...]:
    """Return the pipelines of the files without a mistake, by name; of two with one name, that of the first file.

    So a bad file does not take away the DAGs of the others; ``parse_all`` tells what is wrong.
    """
    parsed, _ = _parse_each(folder)
    by_name = {pipeline.name: pipeline for pipeline in reversed(parsed)}
    return tuple(pipeline for _, pipeline in sorted(by_name.items()))


def _parse_each(folder: Path) -> tuple[list[Pipeline], list[str]]:
    """Return the pipelines in the order of their files, and the mistakes of the other files."""
    parsed: list[Pipeline] = []
    problems: list[str] = []
    for path in pipeline_files(folder):
        try:
            parsed.append(parse_pipeline(path))
        except PipelineFileError as error:
            problems.extend(problem for problem in error.problems if problem not in problems)
    return parsed, problems


def pipeline_files(folder: Path = FOLDER) -> tuple[Path, ...]:
    """The pipeline files of a folder in the order of their names.

    Raises:
        ConfigurationError: there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder; give the folder of the pipeline files")
    return tuple(sorted(filter(is_pipeline_file, folder.iterdir())))


def find_pipeline(name_or_path: str, folder: Path = FOLDER) -> Path:
    """The file of a pipeline, given its name (``pipeline:`` of a file in the folder) or its path.

    Raises:
        ConfigurationError: there is none, or more than one; the message lists the known names.
    """
    if "/" in name_or_path or name_or_path.endswith(SUFFIXES):
        for path in (Path(name_or_path), folder / name_or_path):
            if path.is_file():
                return path
        raise ConfigurationError(f"there is no pipeline file {name_or_path}; {_known_in(folder)}")
    known = _names(folder)
    if not (paths := _called(name_or_path, known)):
        for path, name in known.items():
            if path.stem == name_or_path:
                raise ConfigurationError(
                    f"there is no pipeline {quoted(name_or_path)}; {path} is the file of pipeline {name}"
                )
        close = get_close_matches(name_or_path, known.values(), n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ConfigurationError(f"there is no pipeline {quoted(name_or_path)}; {hint}{_known_in(folder)}")
    return paths[0]


def check_name(pipeline: Pipeline) -> None:
    """Check that no two files of the pipeline's folder have its name.

    Raises:
        ConfigurationError: they have.
    """
    _called(pipeline.file, _names(pipeline.path.parent))


def _called(wanted: str, known: dict[Path, str]) -> list[Path]:
    paths = [path for path, name in known.items() if name == wanted]
    if len(paths) > 1:
        raise ConfigurationError(f"{' and '.join(map(str, paths))} are both called {wanted}; rename one of them")
    return paths


def nearest_above(pipeline_file: Path, name: str) -> Path | None:
    """The file of that relative path, ``expectations/orders.json`` say, of the nearest folder above a pipeline file."""
    files = (folder / name for folder in pipeline_file.resolve().parents)
    return next((file for file in files if file.is_file()), None)


def known_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """The names of the pipelines in the folder, also of files with mistakes; empty if there is no such folder."""
    return tuple(sorted(set(_names(folder).values())))


def _pipeline(said: Section, path: Path, data: bytes) -> Pipeline:
    file, config_hash = said.value, _hash(data)
    absent = {
        "source": Source(),
        "record": RecordShape(None, None, ()),
        "target": Target(),
        "quality": Quality(),
        "limits": Limits(),
    }
    pipeline = said.make(Pipeline, **absent | said.given, path=path, config_hash=config_hash, text=data)
    source, target = pipeline.source, pipeline.target
    record = replace(
        pipeline.record,
        schema_ids=source.registry is not None,
        topic_names=source.several,
        refuses_deletes=target.deletes is Deletes.REFUSE,
        append=target.merge is Merge.APPEND,
    )
    if source.unavailable:
        record = with_unavailable(record, source.unavailable)
    envelope = file.at("source", "envelope")
    if envelope and source.envelope and "record" in said.given:
        check_envelope(envelope, file, pipeline)
        record = in_envelope(record, file.at("record", "tombstone") is not None)
    if source.schema:
        config_hash = _hash(config_hash.encode() + source.schema.text.encode())
    pipeline = replace(pipeline, record=record, config_hash=config_hash)
    check_together(said, pipeline)
    return pipeline


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _names(folder: Path) -> dict[Path, str]:
    """Return the name of each file of the folder; an unreadable file goes by its own, so that its mistakes show."""
    if not folder.is_dir():
        return {}
    names = {path: _top_level(path).get("pipeline") for path in pipeline_files(folder)}
    return {path: node.value if isinstance(node, yaml.ScalarNode) else path.stem for path, node in names.items()}


def _known_in(folder: Path) -> str:
    names = ", ".join(known_names(folder))
    return f"{folder} has {names}" if names else f"{folder} has no pipelines; give the path of a YAML file"


def _top_level(path: Path) -> dict[str, yaml.Node]:
    try:
        _, root = read_file(path)
    except Refused:
        return {}
    return {key.value: node for key, node in root.value} if isinstance(root, yaml.MappingNode) else {}


def _shared(parsed: list[Pipeline]) -> list[str]:
    """A line for each pipeline whose name or table an earlier one has."""
    problems: list[str] = []
    names: dict[str, Path] = {}
    tables: dict[tuple[str, str, str], Path] = {}
    for pipeline in parsed:
        target, lines = pipeline.target, _top_level(pipeline.path)
        table = (target.connection, target.schema, target.table)
        for key, other, right in (
            ("pipeline", names.setdefault(pipeline.name, pipeline.path), "give each pipeline its own name"),
            ("target", tables.setdefault(table, pipeline.path), "give each pipeline its own table"),
        ):
            if other != pipeline.path:
                shown = pipeline.name if key == "pipeline" else target.name
                line = line_of(lines[key]) if key in lines else 1
                problems.append(f"{pipeline.path}:{line}: {other} has the {key} {shown} too; {right}")
    return problems
