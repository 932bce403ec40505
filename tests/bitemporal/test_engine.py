"""The engine in process against the reference: the corpus, the table of primitives, random programs.

What a random SELECT gives is worked out by hand for the reference; that its SQL says the same is tested with that.
"""

from __future__ import annotations

import pytest

from augury.engine import traces
from augury.kernels.reference.bitemporal import run
from tests.bitemporal.corpus import ALWAYS, EXPECTED, Case, Writer, cases, cells, program_of, raws_of, until_of
from tests.bitemporal.generate import generate, generate_mixed
from tests.bitemporal.local import local
from tests.bitemporal.told import difference


@pytest.mark.parametrize("case", [*cases(), *cells()], ids=lambda case: str(case["name"]))
def test_a_case_of_the_contract(case: Case) -> None:
    program = program_of(case)
    found = local(program, raws_of(case, program), until_of(case))
    writer = Writer(program, case["month"])
    wanted = {**ALWAYS, **{key: case[key] for key in EXPECTED if key in case}}
    if program.settings.retain_us is not None:
        wanted.pop("history", None)  # a store's
    assert {key: writer.shown(found, key, case) for key in wanted} == wanted


@pytest.mark.parametrize("block", range(8))
def test_random_programs(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        g = generate(seed)
        assert not difference(run(g.program, g.selects, g.raws, g.until), local(g.program, g.raws, g.until)), seed


@pytest.mark.parametrize("block", range(8))
def test_random_programs_of_all_kinds_of_classes(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if block % 2:
        monkeypatch.setattr(traces, "SPARE", -1 << 40)  # what no detector holds is forgotten after every tick
    for seed in range(block * 25, block * 25 + 25):
        g = generate_mixed(seed)
        assert not difference(run(g.program, g.selects, g.raws, g.until), local(g.program, g.raws, g.until)), seed
