"""How the branches of an agent become one."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace
from PySide6.QtWidgets import QWidget

from engine.flow.agent_check import BUILT_IN_MERGES
from engine.flow.flow_spec import AgentSpec, MergeSpec
from workbench.designer.fields import Binding, Choice, ChoiceField, Field, LineField, TextField, TickField, bound
from workbench.designer.form_section import ExpressionField, FormSection, translate
from workbench.designer.key_renamer import KeyRenamer, one_renamed_with, renamed_with
from workbench.designer.targets import AgentTarget, PartTarget
from workbench.designer.typed_values import names, names_text, one_line, optional, unescaped

FIELDS = ("key", "keys", "template", "separator", "header", "sort_by", "by")


class MergeSection(FormSection):
    """Kind of merge, its options, and whether it waits for all branches of the run."""

    def __init__(
        self, target: AgentTarget, merges: Callable[[], Sequence[str]], renamer: KeyRenamer, parent: QWidget
    ) -> None:
        """`merges` are the names of plug-ins that merge."""
        super().__init__("merge", translate("Inspector", "Branches"), target, parent, is_open=False)
        self._plugins = merges
        step = translate("Inspector", "Change merge of %1")
        self.kind = ChoiceField(
            Binding(target=target, path=".merge", read=_kind, write=_with_kind, step=step),
            translate("Inspector", "Merge"),
            translate("Inspector", "How the contexts of the branches become fewer"),
            self,
            choices=self._kinds,
        )
        self.add(self.kind)
        part = PartTarget(
            target, "merge", read=lambda one: one.merge, write=lambda one, merge: replace(one, merge=merge)
        )
        self.part = part
        self.options = self._options(part, step, renamer)
        for field in self.options.values():
            self.add(field)
        self.add(
            TickField(
                bound(target, "gather", translate("Inspector", "Change gathering of %1")),
                translate("Inspector", "Wait for all branches"),
                translate("Inspector", "It runs once, when no other branch of the run can still arrive"),
                self,
            )
        )

    def _options(self, part: PartTarget, step: str, renamer: KeyRenamer) -> dict[str, Field]:
        text = translate("Inspector", "The text of a branch; keys in {{ }} are replaced")

        def rename(old: str, new: str) -> bool:
            """One text is a key of its own; what is voted on is made elsewhere."""
            merges = part.items()
            voted = bool(merges) and merges[0].type == "vote"
            return renamer.used(old, new) if voted else renamer.made_once(old, new)

        key, keys = bound(part, "key", step), bound(part, "keys", step)
        return {
            "key": LineField(
                key,
                translate("Inspector", "Key"),
                translate("Inspector", "The key that is voted on, or that takes the joined text"),
                self,
                name=translate("Inspector", "Key of the merge"),
                parse=optional,
                take=renamed_with(key, rename),
            ),
            "keys": LineField(
                keys,
                translate("Inspector", "Keys"),
                translate("Inspector", "Keys whose values are put together, with commas between"),
                self,
                name=translate("Inspector", "Keys of the merge"),
                parse=names,
                show=names_text,
                take=one_renamed_with(keys, renamer.used),
            ),
            "template": TextField(
                bound(part, "template", step),
                *(translate("Inspector", "Text of a branch"), text, self),
                parse=optional,
                show=lambda value: value or "",
            ),
            "separator": LineField(
                bound(part, "separator", step),
                translate("Inspector", "Between"),
                translate("Inspector", r"What stands between the texts; \n is a new line"),
                self,
                name=translate("Inspector", "Separator of the merge"),
                parse=lambda text: unescaped(text) or None,
                show=one_line,
                hint=r"\n",
            ),
            "header": TextField(
                bound(part, "header", step),
                translate("Inspector", "Head"),
                translate("Inspector", "What stands before all texts"),
                self,
                name=translate("Inspector", "Head of the joined text"),
                parse=optional,
                show=lambda value: value or "",
            ),
            "sort_by": ExpressionField(
                bound(part, "sort_by", step),
                translate("Inspector", "Sort by"),
                translate("Inspector", "An expression; branches with a smaller value come first"),
                self,
            ),
            "by": ExpressionField(
                bound(part, "by", step),
                translate("Inspector", "Best by"),
                translate("Inspector", "An expression; the branch with the largest value is kept"),
                self,
            ),
        }

    def refresh(self) -> None:
        """Show what this kind of merge has."""
        super().refresh()
        merges = self.part.items()
        merge = merges[0] if len(merges) == 1 else None
        used = BUILT_IN_MERGES.get(merge.type, FIELDS) if merge else ()
        for name, field in self.options.items():
            field.setVisible(merge is not None and (name in used or getattr(merge, name) not in (None, ())))
        self.set_note(merge.type if merge else "")

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """One agent."""
        return len(agents) == 1

    def _kinds(self) -> Sequence[Choice]:
        words = {
            "concat": translate("Inspector", "All values"),
            "first": translate("Inspector", "First"),
            "vote": translate("Inspector", "Majority"),
            "join": translate("Inspector", "One text"),
            "best": translate("Inspector", "Best"),
        }
        none = Choice(value=None, text=translate("Inspector", "None"))
        built_in = [Choice(value=kind, text=text, help_line=kind) for kind, text in words.items()]
        return [none, *built_in, *(Choice(value=name, text=name) for name in self._plugins())]


def _kind(agent: AgentSpec) -> str | None:
    return agent.merge.type if agent.merge else None


def _with_kind(agent: AgentSpec, kind: str | None) -> AgentSpec:
    """Another kind keeps the options that it has, too."""
    if kind is None:
        return replace(agent, merge=None)
    old = agent.merge or MergeSpec(type=kind)
    kept = {field: getattr(old, field) for field in BUILT_IN_MERGES.get(kind, FIELDS)}
    merge = MergeSpec(type=kind, extra=old.extra, **kept)
    return replace(agent, merge=merge)
