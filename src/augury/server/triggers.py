"""`/v1/triggers`, `/v1/rules` and `/v1/groups`: what there is, whether it is enabled, and whether it has occurred.

In: names. Out: JSON. Statements are added, replaced and dropped by `programs`.
"""

from __future__ import annotations

from augury.algebra.dump import dump_rule, dump_trigger
from augury.algebra.rule import Rule, Trigger
from augury.event import Attribute, key_of
from augury.kernels.firing import Switched
from augury.server.classes import Verb, unknown
from augury.server.models import (
    AttributeModel,
    Evaluated,
    GroupModel,
    Groups,
    RuleList,
    RuleModel,
    TriggerModel,
    Triggers,
)
from augury.server.routes import Route
from augury.server.served import Served
from augury.server.tokens import Role


def routes(served: Served) -> list[Route]:
    """The routes of triggers, rules and groups."""
    asked = _Triggers(served)
    trigger, rule, group = ({"response_model": one} for one in (TriggerModel, RuleModel, GroupModel))
    return [
        Route("GET", "/v1/triggers", Role.READ, asked.triggers, more={"response_model": Triggers}),
        Route("GET", "/v1/triggers/{name}", Role.READ, asked.trigger, more=trigger),
        Route("GET", "/v1/triggers/{name}/evaluate", Role.READ, asked.evaluate, more={"response_model": Evaluated}),
        Route("POST", "/v1/triggers/{name}/{verb}", Role.DEFINE, asked.switch_trigger, more=trigger),
        Route("GET", "/v1/rules", Role.READ, asked.rules, more={"response_model": RuleList}),
        Route("GET", "/v1/rules/{name}", Role.READ, asked.rule, more=rule),
        Route("POST", "/v1/rules/{name}/{verb}", Role.DEFINE, asked.switch_rule, more=rule),
        Route("GET", "/v1/groups", Role.READ, asked.groups, more={"response_model": Groups}),
        Route("GET", "/v1/groups/{name}", Role.READ, asked.group, more=group),
        Route("POST", "/v1/groups/{name}/{verb}", Role.DEFINE, asked.switch_group, more=group),
    ]


class _Triggers:
    def __init__(self, served: Served) -> None:
        self._served = served

    async def triggers(self) -> Triggers:
        """The triggers of the program."""
        return Triggers(triggers=[self._trigger(one) for one in self._served.engine.program.triggers])

    async def trigger(self, name: str) -> TriggerModel:
        """A trigger."""
        return self._trigger(self._trigger_named(name))

    async def evaluate(self, name: str) -> Evaluated:
        """Whether the composite event of a trigger has occurred, and no firing has used it."""
        found = self._trigger_named(name).name
        return Evaluated(trigger=found, occurred=await self._served.read(lambda: self._served.engine.evaluate(found)))

    async def switch_trigger(self, name: str, verb: Verb) -> TriggerModel:
        """Enable or disable a trigger, from the next version on."""
        found = self._trigger_named(name)
        await self._switch(Switched.TRIGGER, found.name, verb)
        return self._trigger(found)

    async def rules(self) -> RuleList:
        """The rules of the program."""
        return RuleList(rules=[self._rule(one) for one in self._served.engine.program.rules])

    async def rule(self, name: str) -> RuleModel:
        """A rule."""
        return self._rule(self._rule_named(name))

    async def switch_rule(self, name: str, verb: Verb) -> RuleModel:
        """Enable or disable a rule, from the next version on."""
        found = self._rule_named(name)
        await self._switch(Switched.RULE, found.name, verb)
        return self._rule(found)

    async def groups(self) -> Groups:
        """The groups of rules."""
        return Groups(groups=[self._group(name) for name in self._served.engine.program.groups])

    async def group(self, name: str) -> GroupModel:
        """A group of rules."""
        return self._group(self._group_named(name))

    async def switch_group(self, name: str, verb: Verb) -> GroupModel:
        """Enable or disable all rules of a group, from the next version on."""
        found = self._group_named(name)
        await self._switch(Switched.GROUP, found, verb)
        return self._group(found)

    async def _switch(self, kind: Switched, name: str, verb: Verb) -> None:
        await self._served.read(lambda: self._served.engine.switch(kind, name, verb == "enable"))

    def _trigger(self, one: Trigger) -> TriggerModel:
        return TriggerModel(
            name=one.name,
            enabled=self._served.engine.is_on(Switched.TRIGGER, one.name),
            parameters=_attributes(one.parameters),
            events=list(one.events),
            returns=None if one.returns is None else str(one.returns[0]),
            text=dump_trigger(one),
        )

    def _rule(self, one: Rule) -> RuleModel:
        return RuleModel(
            name=one.name,
            enabled=self._served.engine.is_on(Switched.RULE, one.name),
            parameters=_attributes(one.parameters),
            groups=list(one.groups),
            text=dump_rule(one),
        )

    def _group(self, name: str) -> GroupModel:
        program = self._served.engine.program
        is_on = self._served.engine.is_on(Switched.GROUP, name)
        return GroupModel(name=name, enabled=is_on, rules=list(program.groups[name]))

    def _trigger_named(self, name: str) -> Trigger:
        known = {key_of(one.name): one for one in self._served.engine.program.triggers}
        if key_of(name) not in known:
            raise unknown("trigger", name, [one.name for one in known.values()])
        return known[key_of(name)]

    def _rule_named(self, name: str) -> Rule:
        known = {key_of(one.name): one for one in self._served.engine.program.rules}
        if key_of(name) not in known:
            raise unknown("rule", name, [one.name for one in known.values()])
        return known[key_of(name)]

    def _group_named(self, name: str) -> str:
        known = {key_of(one): one for one in self._served.engine.program.groups}
        if key_of(name) not in known:
            raise unknown("group", name, list(known.values()))
        return known[key_of(name)]


def _attributes(found: tuple[Attribute, ...]) -> list[AttributeModel]:
    return [AttributeModel(name=one.name, type=str(one.type)) for one in found]
