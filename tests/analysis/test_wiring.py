"""BIND and DETECT → bindings and detections: the values that executors and detectors get, and what is warned of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from augury.algebra.program import Program
from augury.algebra.wiring import (
    Binding,
    Detection,
    ExecutorKind,
    Forward,
    FromEnvironment,
    Length,
    SourceKind,
)
from augury.algebra.wiring_forms import EXECUTOR_FORMS, SOURCE_FORMS, Clause, Looks, Option, Takes, option_of
from augury.api import check

CLASSES = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Delivery (resource TEXT, amount INT) ID (resource) LIFESPAN (14d)
  ON CHANGE DO informOwner(NEW.resource, NEW.amount);
RULE r (x INT) ACTION note(x), POST Bell() ALTERNATIVEACTION NOTE(x);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Bell () ID () LIFESPAN (1d);
"""
BOTH = "BIND informOwner, note TO LOG;\n"
OPTIONS = [option for form in EXECUTOR_FORMS.values() for option in form.options]
OPTIONS += [option for form in SOURCE_FORMS.values() for option in form.options]


def program(text: str) -> Program:
    checked = check(CLASSES + text)
    assert checked.program is not None, checked.rendered()
    return checked.program


def codes(text: str) -> list[str]:
    return [d.code for d in check(CLASSES + text).diagnostics]


# ---- values


def test_a_binding_has_everything_that_is_said() -> None:
    text = """BIND INFORMOWNER TO WEBHOOK ENV 'HOOK'
      WITH (Timeout = 2m, secret = ENV 'S', retries = 0, HEADER_X_Team = 'a b', concurrency = 1);
    BIND note TO COMMAND 'a' ENV 'B' 'c d';"""
    settings = (
        ("timeout", Length(120_000_000)),
        ("secret", FromEnvironment("S")),
        ("retries", 0),
        ("header_x_team", "a b"),
        ("concurrency", 1),
    )
    assert program(text).bindings == (
        Binding("informOwner", ExecutorKind.WEBHOOK, (FromEnvironment("HOOK"),), settings),
        Binding("note", ExecutorKind.COMMAND, ("a", FromEnvironment("B"), "c d")),
    )


def test_each_action_of_a_statement_has_a_binding_that_points_to_the_statement() -> None:
    bindings = program(BOTH).bindings
    assert [(b.action, b.kind, b.target) for b in bindings] == [
        ("informOwner", ExecutorKind.LOG, ()),
        ("note", ExecutorKind.LOG, ()),
    ]
    assert {(CLASSES + BOTH)[b.span.start : b.span.end] for b in bindings} == {BOTH.strip().rstrip(";")}


def test_an_event_is_named_as_its_class_is_declared() -> None:
    text = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Told (r TEXT, a INT) ID () LIFESPAN (1d); BIND note TO LOG;"
    (binding,) = program(text + "BIND informOwner TO EVENT told;").bindings[1:]
    assert (binding.kind, binding.target) == (ExecutorKind.EVENT, ("Told",))


def test_a_detection_has_everything_that_is_said() -> None:
    text = """DETECT delivery AS list FROM HTTP 'https://example.org/list' EVERY 30s
      ITEMS '$.d[*]' FIELDS (RESOURCE = 'item', occTime = 'due', Event_Id = 'id') NEXT '$.next'
      FORWARD CHANGED WITHDRAW VANISHED WITH (method = 'post', body = '', pages = 3);"""
    assert program(BOTH + text).detections == (
        Detection(
            "list",
            "Delivery",
            SourceKind.HTTP,
            "https://example.org/list",
            30_000_000,
            "$.d[*]",
            (("resource", "item"), ("occ_time", "due"), ("event_id", "id")),
            "$.next",
            Forward.CHANGED,
            True,
            (("method", "POST"), ("body", ""), ("pages", 3)),
        ),
    )


def test_a_detection_of_which_little_is_said() -> None:
    found = program(BOTH + "DETECT bell FROM FILE ENV 'BELLS' FORWARD all;").detections
    assert found == (Detection("bell", "Bell", SourceKind.FILE, FromEnvironment("BELLS")),)


def test_fields_of_a_form_keep_their_case_and_may_differ_in_it() -> None:
    text = """DETECT Delivery FROM HTML 'https://example.org' EVERY 1h ITEMS 'tr' FIELDS (resource = 'td')
      WITH (FORM = 'form', FORM_userName = 'a', form_username = 'b', `form_a[1]` = ENV 'C');"""
    assert program(BOTH + text).detections[0].settings == (
        ("form", "form"),
        ("form_userName", "a"),
        ("form_username", "b"),
        ("form_a[1]", FromEnvironment("C")),
    )


@pytest.mark.parametrize("kind", ExecutorKind)
def test_every_option_of_an_executor_may_come_from_the_environment(kind: ExecutorKind) -> None:
    form = EXECUTOR_FORMS[kind]
    target = "Bell" if kind is ExecutorKind.EVENT else f"'{form.target.example}'" if form.target.least else ""
    found = check(f"{CLASSES} BIND x TO {kind} {target} {from_environment(form.options)}; {BOTH}")
    assert found.program is not None, found.rendered()
    assert found.program.bindings[0].settings == named(form.options)


@pytest.mark.parametrize("kind", SourceKind)
def test_every_option_of_a_detector_may_come_from_the_environment(kind: SourceKind) -> None:
    form = SOURCE_FORMS[kind]
    clauses = " ".join(
        {"ITEMS": "ITEMS 'x'", "FIELDS": "FIELDS (resource = 'y')"}[c] for c in Clause if c in form.needed
    )
    every = "" if form.looks is Looks.PUSHED else "EVERY 5s"
    options = from_environment(form.options)
    text = f"DETECT Delivery FROM {kind} '{form.target.example}' {every} {clauses} {options};"
    assert program(BOTH + text).detections[0].settings == named(form.options)


def from_environment(options: tuple[Option, ...]) -> str:
    return f"WITH ({', '.join(f'{name} = ENV {chr(39)}X{chr(39)}' for name, _ in named(options))})" if options else ""


def named(options: tuple[Option, ...]) -> tuple[tuple[str, FromEnvironment], ...]:
    return tuple((f"{o.name}x" if o.is_family else o.name, FromEnvironment("X")) for o in options)


# ---- who carries out what


def test_a_program_without_a_word_about_the_world_is_not_warned_of() -> None:
    assert codes("") == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (BOTH, []),
        ("BIND informOwner TO LOG;", ["W393"]),
        ("BIND NOTE TO LOG;", ["W393"]),
        ("DETECT Bell FROM FILE 'bells.jsonl';", ["W393", "W393"]),
        ("BIND Bell TO LOG; BIND informOwner, Note TO LOG;", ["W392"]),  # POST is no action
        ("BIND informOwner, note, shout TO LOG;", ["W392"]),
        ("BIND informOwner, note TO PIGEON;", ["E270"]),  # bound, if to nobody
        ("BIND informOwner TO LOG; BIND informOwner, note TO LOG;", ["E272"]),
    ],
)
def test_actions_are_bound_once_and_all(text: str, wanted: list[str]) -> None:
    assert codes(text) == wanted


def test_an_action_in_a_statement_that_is_wrong_counts_as_done() -> None:
    text = (
        "CREATE CLOCK EVENT CLASS Beat EVERY 5m ON ONTIME DO shout(nobody.knows); BIND shout, informOwner, note TO LOG;"
    )
    assert "W392" not in codes(text)


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        ("Told (r TEXT, a INT)", []),
        ("Told (r VARCHAR(90), a BIGINT)", []),
        ("Told (r TEXT)", ["E274"]),
        ("Told (a INT, r TEXT)", ["E274", "E274"]),
        ("Told (r TEXT, a NOTYPE)", ["E204"]),
    ],
)
def test_arguments_become_attributes_by_position(event: str, wanted: list[str]) -> None:
    created = f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {event} ID () LIFESPAN (1d);"
    assert codes(f"{created} BIND informOwner TO EVENT Told; BIND note TO LOG;") == wanted


# ---- the tables


def test_the_example_of_a_kind_is_one() -> None:
    targets = [*(form.target for form in EXECUTOR_FORMS.values()), *(form.target for form in SOURCE_FORMS.values())]
    assert all(re.fullmatch(target.pattern, target.example) or target.most == 0 for target in targets)


def test_every_kind_has_its_form_and_options_of_one_name_are_alike() -> None:
    assert set(EXECUTOR_FORMS) == set(ExecutorKind)
    assert set(SOURCE_FORMS) == set(SourceKind)
    assert len({o.name for o in OPTIONS}) == len({(o.name, o.takes, o.meaning) for o in OPTIONS})
    assert all(form.needed <= form.clauses for form in SOURCE_FORMS.values())


def test_an_option_is_found_by_its_name_or_by_how_it_begins() -> None:
    one = Option("form", Takes.TEXT, "")
    family = Option("form_", Takes.TEXT, "")
    assert option_of("FORM", (family, one)) is one
    assert option_of("Form_User", (one, family)) is family
    assert [option_of(name, (one, family)) for name in ("form_", "for", "forms", "xform_user", "")] == [None] * 5


def marked(options: tuple[Option, ...]) -> str:
    return ", ".join(f"**`{o.shown}`**" if o.needed else f"`{o.shown}`" for o in options) or "–"


def test_the_reference_lists_kinds_and_options() -> None:
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text("utf-8").splitlines()
    start, end = page.index("## Acting and sensing"), page.index("## Formatting")
    listed = [line for line in page[start:end] if line.startswith("| `")]
    wanted = [f"| `{kind}` | {form.target.what} | {marked(form.options)} |" for kind, form in EXECUTOR_FORMS.items()]
    for kind, form in SOURCE_FORMS.items():
        clauses = ", ".join(f"**{c}**" if c in form.needed else c for c in Clause if c in form.clauses)
        wanted.append(f"| `{kind}` | {form.target.what} | {form.looks} | {clauses} | {marked(form.options)} |")
    wanted += dict.fromkeys(f"| `{o.shown}` | {o.takes} | {o.meaning} |" for o in OPTIONS)
    assert listed == wanted
