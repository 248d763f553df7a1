"""The keys that the pipeline files of a folder share, in ``_defaults.yaml`` beside them."""

from pathlib import Path

import yaml

from offset_ledger.errors import PipelineFileError
from offset_ledger.pipeline_file.located import CORE, EmptyFile, Refused, describe, is_text, line_of, read_file

SUFFIXES = (".yaml", ".yml")
_STEM = "_defaults"


def is_pipeline_file(path: Path) -> bool:
    """Return whether the path is one of a pipeline file, by its name."""
    return path.suffix in SUFFIXES and path.stem != _STEM and path.is_file()


def with_defaults(path: Path, root: yaml.Node) -> yaml.Node:
    """Return the document of a pipeline file with its folder's defaults added; its own values win.

    Raises:
        PipelineFileError: the file of the defaults cannot be read, or has a key that no two pipelines share.
    """
    files = [path.with_name(_STEM + suffix) for suffix in SUFFIXES]
    file = next((file for file in files if file.is_file()), None)
    if file is None or not isinstance(root, yaml.MappingNode):
        return root
    try:
        _, shared = read_file(file)
        if not isinstance(shared, yaml.MappingNode):
            raise Refused(f"expected a mapping, found {describe(shared)}", "write keys of a pipeline file", 1)
        for key, _ in shared.value:
            if key.value == "pipeline":
                raise Refused("pipeline names one pipeline", "write it into that pipeline's file", line_of(key))
    except EmptyFile:
        return root
    except Refused as refused:
        raise PipelineFileError([f"{file}:{refused.line or 1}: {refused}"]) from None
    given = {key.value for key, _ in root.value if is_text(key)}
    # A key that a section of the defaults lacks is reported in the pipeline file.
    begun = [
        (_at(root, "str", key.value), _at(root, "map", []))
        for key, node in shared.value
        if isinstance(node, yaml.MappingNode) and is_text(key) and key.value not in given
    ]
    return _merged(_at(root, "map", [*begun, *root.value]), shared)


def _at(place: yaml.Node, tag: str, value: object) -> yaml.Node:
    make = yaml.MappingNode if tag == "map" else yaml.ScalarNode
    return make(CORE + tag, value, place.start_mark, place.end_mark)


def _merged(own: yaml.Node, shared: yaml.Node) -> yaml.Node:
    """Merge the mappings, key by key and in depth; anything else is taken whole from the first that has it."""
    if not (isinstance(own, yaml.MappingNode) and isinstance(shared, yaml.MappingNode)):
        return own
    others = {key.value: node for key, node in reversed(shared.value) if is_text(key)}
    given = {key.value for key, _ in own.value if is_text(key)}
    added = [pair for pair in shared.value if not (is_text(pair[0]) and pair[0].value in given)]
    kept = [(key, _merged(node, others[key.value]) if key.value in others else node) for key, node in own.value]
    return _at(own, "map", [*added, *kept])
