"""What a comparison asks: a prompt as a flow of one agent, and rows of a dataset or typed ones."""

from collections.abc import Iterable, Iterator, Mapping

from engine.comparison_values import CompareRow
from engine.dataset import Dataset, RowInputs
from engine.errors import ComparisonError
from engine.flow.flow_keys import placeholders
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, HandlerSpec, InputSpec

ANSWER = "answer"
"""The output of a prompt's flow."""
TITLE_LENGTH = 60


def prompt_flow(prompt: str, system: str = "") -> FlowSpec:
    """A flow of one agent that asks this; its placeholders are inputs. Raises ComparisonError for an empty prompt."""
    if not prompt.strip():
        raise ComparisonError("Found an empty prompt, expected a text.")
    found = [placeholders(text) for text in (system, prompt)]
    keys = sorted({key for names in found for key in (*names.keys, *names.slots)})
    kind = AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT if system.strip() else AgentType.START_CONVERSATION
    line = " ".join(prompt.split())
    title = line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1]}…"
    return FlowSpec(
        name=title,
        inputs=tuple(InputSpec(key=key, type="text", required=True) for key in keys),
        outputs=(ANSWER,),
        agents=(
            AgentSpec(
                name="Answer",
                type=kind,
                system_prompt=system,
                template=prompt,
                handler=HandlerSpec(type="text", key=ANSWER),
            ),
        ),
    )


def typed_rows(rows: Iterable[Mapping[str, object]]) -> Iterator[CompareRow]:
    """Rows that a person typed."""
    for number, values in enumerate(rows, 1):
        yield CompareRow(row=number, values=dict(values))


def dataset_rows(dataset: Dataset, spec: FlowSpec, given: Mapping[str, object]) -> Iterator[CompareRow]:
    """The rows of a dataset, faulty ones with their fault; for a thread. Raises DatasetInvalid."""
    inputs = RowInputs(dataset, spec, given)
    with dataset.rows() as found:
        for row in found:
            fault = inputs.fault(row)
            values = dict(row.values) if fault else inputs.placed(row)
            yield CompareRow(row=row.index, line=row.line, values=values, fault=fault)
