"""Reads the policy: the action for a finding, and the action that follows if it has no effect.

A rule matches by condition, severity, cause, role and number of occurrences. Its ladder has steps. A step begins after
a time, or when the step before it was attempted often enough without effect. policy.toml is the default. The guards
decide whether an action is permitted.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from streams.decide.life_cycle import RESTORES
from streams.instrument.text import refusal
from streams.wire.errors import Misconfigured
from streams.wire.models import Action, Cause, Condition, Finding, Severity

Member = TypeVar("Member", bound=IntEnum)

DEFAULT = resources.files("streams.decide") / "policy.toml"

OnExternal = Literal["end", "escalate", "repeat"]
"""The reaction to another party that returns a target to service: the remediation ends with its probation, waits for a
person, or the next attempt takes the target out again."""

NO_ATTEMPTS: Mapping[Action, int] = MappingProxyType({})


def _named(names: Mapping[str, Member], what: str) -> BeforeValidator:
    """Return a validator that accepts known names, and suggests a similar name for any other."""

    def member(value: object) -> Member:
        found = names.get(value) if isinstance(value, str) else None
        if found is None:
            near = difflib.get_close_matches(str(value), names, n=1)
            raise ValueError(f"unknown {what} {value!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return found

    return BeforeValidator(member)


ActionName = Annotated[Action, _named({a.name: a for a in Action if a}, "action")]
ConditionName = Annotated[Condition, _named({c.slug: c for c in Condition if c}, "condition")]
SeverityName = Annotated[Severity, _named({s.name: s for s in Severity if s}, "severity")]
CauseName = Annotated[Cause, _named({c.label: c for c in Cause if c}, "cause")]


class Step(BaseModel):
    """One step of a ladder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: ActionName
    after_s: Annotated[float, Field(ge=0)] = 0
    """The step begins when the finding has been open for this long."""
    attempts: Annotated[int, Field(ge=1)] = 3
    """After this number of attempts without effect the next step begins at once; observing has no limit."""
    hint: str = ""
    """The part to inspect, for people."""

    @model_validator(mode="after")
    def _is_no_restore(self) -> Self:
        if self.action in RESTORES:
            raise ValueError(f"{self.action.name} cannot be a step; it follows a proof ([reversals])")
        return self


class Rule(BaseModel):
    """One rule: the findings that it matches, and its ladder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    condition: ConditionName
    ladder: Annotated[tuple[Step, ...], Field(min_length=1)]
    severity: SeverityName = Severity.INFO
    """Matches findings with at least this severity."""
    occurrences: Annotated[int, Field(ge=1)] = 1
    """Matches findings with at least this number of occurrences in 28 days."""
    causes: tuple[CauseName, ...] = ()
    """Matches findings with one of these causes; empty matches any."""
    roles: tuple[Literal["host-link", "fabric-link"], ...] = ()
    """Matches subjects with one of these roles; empty matches any."""

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        times = [step.after_s for step in self.ladder]
        if times != sorted(times):
            raise ValueError("after_s of the ladder must not decrease")
        return self

    def matches(self, finding: Finding) -> bool:
        """Return whether the rule applies to a finding."""
        return (
            self.condition is finding.condition
            and (finding.occurrences or 1) >= self.occurrences
            and finding.severity >= self.severity
            and (not self.causes or finding.cause in self.causes)
            and (not self.roles or finding.subject.role in self.roles)
        )

    @property
    def rank(self) -> tuple[int, int, bool, bool]:
        """Return the precedence of the rule among matching rules."""
        return self.occurrences, self.severity, bool(self.causes), bool(self.roles)


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """The action that the policy proposes for a finding now."""

    rule: str
    action: Action
    hint: str = ""
    step: int = 0
    """The index of the step in the ladder."""
    next_ns: int | None = None
    """The time at which the next step begins; None if time does not begin one."""


class Policy(BaseModel):
    """A validated policy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: tuple[Rule, ...]
    reversals: dict[ActionName, ActionName] = Field(default_factory=dict)
    external: dict[ActionName, OnExternal] = Field(default_factory=dict)
    """By the action that took the target out of service; `end` for an action that is not there."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        problems = [*self._duplicates(), *self._wrong_reversals()]
        wrong = self.external.keys() - set(_TAKES_OUT)
        problems += [f"external.{action.name}: takes nothing out of service" for action in wrong]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def rule_for(self, finding: Finding) -> Rule | None:
        """Return the rule that applies to a finding."""
        return max((rule for rule in self.rules if rule.matches(finding)), key=lambda rule: rule.rank, default=None)

    def action_for(
        self, finding: Finding, now_ns: int, attempts: Mapping[Action, int] = NO_ATTEMPTS
    ) -> PolicyAction | None:
        """Return the action for a finding now; None without a rule, before its first step, or after its last attempt.

        `attempts` counts the attempts that ended without effect, by action.
        """
        rule = self.rule_for(finding)
        if rule is None:
            return None
        since_ns = max(finding.started_at_ns, finding.detected_at_ns or 0)
        begins_ns = [since_ns + round(step.after_s * 1e9) for step in rule.ladder]
        index = sum(begin_ns <= now_ns for begin_ns in begins_ns) - 1
        if index < 0:
            return None
        while _is_exhausted(rule.ladder[index], attempts):
            index += 1
            if index == len(rule.ladder):
                return None
        step, later = rule.ladder[index], begins_ns[index + 1 :]
        return PolicyAction(rule.name, step.action, step.hint, index, next((t for t in later if t > now_ns), None))

    def _duplicates(self) -> Iterator[str]:
        names: set[str] = set()
        for rule in self.rules:
            if rule.name in names:
                yield f"the rule {rule.name} exists twice; rename one"
            names.add(rule.name)
        for first, rule in ((a, b) for i, b in enumerate(self.rules) for a in self.rules[:i]):
            if (
                first.condition is rule.condition
                and first.rank == rule.rank
                and _overlap(first.causes, rule.causes)
                and _overlap(first.roles, rule.roles)
            ):
                yield f"the rules {first.name} and {rule.name} match the same findings; remove one or narrow it"

    def _wrong_reversals(self) -> Iterator[str]:
        for action, reversal in self.reversals.items():
            if reversal not in RESTORES:
                yield f"reversals.{action.name}: {reversal.name} brings nothing back; use RESTORE_LINK or UNCORDON_HOST"
            elif action.name.endswith("_LINK") is not (reversal is Action.RESTORE_LINK):
                yield f"reversals.{action.name}: {reversal.name} is for another kind of target"
        needed = {step.action for rule in self.rules for step in rule.ladder} & set(_TAKES_OUT)
        yield from (f"reversals.{a.name}: required, because a rule has it" for a in needed - set(self.reversals))


_TAKES_OUT = (Action.DRAIN_LINK, Action.REPAIR_LINK, Action.CORDON_HOST, Action.REBOOT_HOST)


def load_policy(path: Path | None = None) -> Policy:
    """Return the policy of a file, or the default policy; raises Misconfigured with a line for each problem."""
    return _default() if path is None else parse_policy(_read(path), str(path))


def parse_policy(text: str, origin: str) -> Policy:
    """Return the policy of a TOML text; raises Misconfigured with a line for each problem."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise Misconfigured(f"cannot parse {origin}: {error}") from error
    try:
        return Policy.model_validate(tree)
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise Misconfigured("\n".join(line for one in details for line in _lines(origin, tree, one))) from error


@cache
def _default() -> Policy:
    policy = parse_policy(DEFAULT.read_text(encoding="utf-8"), "policy.toml of railsight")
    with_rule = {rule.condition for rule in policy.rules}
    observed = (_observed(one) for one in Condition if one and one not in with_rule)
    return policy.model_copy(update={"rules": (*policy.rules, *observed)})


def _observed(condition: Condition) -> Rule:
    """Return the rule of a condition for which policy.toml has none: its findings are observed."""
    return Rule.model_validate({"name": condition.slug, "condition": condition.slug, "ladder": [{"action": "OBSERVE"}]})


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"cannot read {path}: {error.strerror}; set decide.policy to a readable file") from error
    except UnicodeDecodeError as error:
        raise Misconfigured(f"cannot read {path}: not UTF-8") from error


def _lines(origin: str, tree: Mapping[str, Any], detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each problem of one error: the file, the rule by name, the field, the problem."""
    where = [str(part) for part in detail["loc"] if part != "[key]"]
    if len(where) > 1 and where[0] == "rules":
        where = [_rule_name(tree, int(where[1])), *where[2:]]
    place = "".join(f"{part}: " for part in (origin, *where[:1], ".".join(where[1:])) if part)
    message = "unknown key" if detail["type"] == "extra_forbidden" else refusal(detail)
    yield from (f"{place}{line}" for line in message.splitlines())


def _rule_name(tree: Mapping[str, Any], index: int) -> str:
    rule = tree["rules"][index]
    name = rule.get("name") if isinstance(rule, dict) else None
    return f"rule {name}" if isinstance(name, str) and name else f"rule {index + 1}"


def _is_exhausted(step: Step, attempts: Mapping[Action, int]) -> bool:
    return step.action is not Action.OBSERVE and attempts.get(step.action, 0) >= step.attempts


def _overlap(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return not some or not others or bool(set(some) & set(others))
