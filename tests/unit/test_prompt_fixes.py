"""What is offered for keys of a prompt that nothing provides."""

from typing import Literal

from msgspec.structs import replace

from engine.flow.flow_check import check_flow
from engine.flow.flow_spec import AgentSpec, FlowSpec, HandlerSpec, InputSpec
from workbench.designer.prompt_fixes import PromptFix, fixed, prompt_fixes


def flow(template: str, *, system: str = "", syntax: Literal["jinja"] | None = None) -> FlowSpec:
    agents = (
        AgentSpec(name="A", template="{{audience}}", handler=HandlerSpec(type="text", key="draft")),
        AgentSpec(name="B", template=template, system_prompt=system, syntax=syntax),
    )
    return FlowSpec(name="F", start="A", agents=agents, inputs=(InputSpec(key="audience"),))


def test_a_key_like_a_known_one_is_corrected_in_both_texts_of_this_agent_only() -> None:
    spec = flow("For {{audiense}}: [[audiense]]", system="You know {{audiense}}.")
    assert prompt_fixes(spec, "B") == (PromptFix(key="audiense", near="audience"),)
    agent = fixed(spec, "B", prompt_fixes(spec, "B")[0]).agents[1]
    assert (agent.template, agent.system_prompt) == ("For {{audience}}: [[audience]]", "You know {{audience}}.")
    assert prompt_fixes(spec, "A") == ()


def test_a_key_like_none_becomes_an_input() -> None:
    spec = flow("About {{zebras}} and {{draft}}")
    fixes = prompt_fixes(spec, "B")
    assert fixes == (PromptFix(key="zebras"),)
    mended = fixed(spec, "B", fixes[0])
    assert mended.inputs == (InputSpec(key="audience"), InputSpec(key="zebras"))
    assert not any("zebras" in problem.message for problem in check_flow(mended))


def test_jinja_templates_are_mended_too() -> None:
    spec = flow("{% if audiense %}{{ audiense }}{% endif %} audiense", syntax="jinja")
    assert prompt_fixes(spec, "B") == (PromptFix(key="audiense", near="audience"),)
    agent = fixed(spec, "B", PromptFix(key="audiense", near="audience")).agents[1]
    assert agent.template == "{% if audience %}{{ audience }}{% endif %} audiense"


def test_nothing_is_offered_where_any_key_may_come() -> None:
    spec = flow("{{audiense}}")
    opened = replace(spec, agents=(replace(spec.agents[0], handler=HandlerSpec(type="json")), spec.agents[1]))
    assert prompt_fixes(opened, "B") == ()
    assert prompt_fixes(spec, "nobody") == ()
