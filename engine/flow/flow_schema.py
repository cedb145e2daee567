"""The JSON Schema of flow files, made from flow_spec and shipped as `resources/flow.schema.json`.

`python -m engine.flow.flow_schema > resources/flow.schema.json` makes it anew; a test compares.
"""

import json
import sys

import msgspec

from engine.flow.flow_spec import FORMAT, VERSION, FlowSpec

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_text() -> str:
    """The schema as it is shipped."""
    # The only type the hook sees is `object`: any JSON value.
    _, parts = msgspec.json.schema_components(
        [FlowSpec], schema_hook=lambda _: {"description": "Any JSON value."}, ref_template="#/$defs/{name}"
    )
    for part in parts.values():
        properties = part.get("properties", {})
        properties.pop("extra", None)  # holds the fields a file has beyond these, which are allowed
        part["description"] = part["description"].replace("None", "null")
    flow = parts.pop("FlowSpec")
    flow["title"] = "Flow of the workbench"
    flow["properties"]["editor"].pop("default")
    flow["properties"] = {
        "format": {"const": FORMAT},
        "version": {"type": "integer", "minimum": VERSION},
        **flow["properties"],
    }
    flow["required"] = ["format", "version", *flow["required"]]
    schema = {"$schema": _DIALECT, **flow, "$defs": parts}
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
