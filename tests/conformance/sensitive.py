"""Vectors of sensitive.json: what is masked for models, and what is kept out of logs."""

from typing import Any

from engine.redaction import redact
from engine.sensitive import mask
from tests.conformance.cases import Case, Kinds


def masked(case: Case) -> object:
    """The text a model is sent."""
    given: Any = case.given
    return {
        "text": mask(
            given["text"],
            style=given.get("style", "partial"),
            allow_email_domains=given.get("allowEmailDomains", ()),
            patterns=given.get("patterns"),
        )
    }


def redacted(case: Case) -> object:
    """The text a log may have."""
    given: Any = case.given
    return {"text": redact(given["text"], given["secrets"])}


KINDS: Kinds = {"mask": masked, "redact": redacted}
