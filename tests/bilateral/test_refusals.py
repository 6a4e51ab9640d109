"""Each thing that can be wrong in a bilateral contract: file, line, field, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bilateral.writing import CONTENT, MOVEMENT, SUGGESTED, examine
from tests.sweeps import long_but

REFERENCE = "reference: [first/seen=0.5, second/seen=2]"
MANY = ", ".join(f"f{number}" for number in range(1_001))
WRONG = [
    # text, what is written, what is written instead, line, what the sentence says
    # --- names and kinds
    (MOVEMENT, "kind: movement\n", "", 1, "lacks the field kind (the kind of contract): writ"),
    (MOVEMENT, "kind: movement", "kind: movment", 2, "kind is 'movment': did you mean 'movement'?"),
    (MOVEMENT, "kind: movement", "kind: [movement]", 2, "kind is a list: write movement, content"),
    (MOVEMENT, "kind: movement", "kind:", 2, "kind is empty: write movement, content or"),
    (MOVEMENT, "kind: movement", "kind: barter", 2, "kind is 'barter': write movement, content or"),
    (MOVEMENT, "contract: spare\n", "", 1, "lacks the field contract (the contract's name): add"),
    (MOVEMENT, "contract: spare", "contract: other", 1, "contract is other, but the file is spare"),
    (MOVEMENT, "contract: spare", "contract: Spare", 1, "contract is 'Spare': write a name: a low"),
    (MOVEMENT, "contract: spare", "contract: 7", 1, "contract is 7: write a name"),
    (MOVEMENT, "contract: spare", "contract: x'; DROP TABLE t; --", 1, "write a name: a lower-c"),
    (MOVEMENT, "payer: beta", "payer: ../beta", 3, "payer is '../beta': write a name"),
    (MOVEMENT, "payer: beta", 'payer: "beta\\n"', 3, "payer is 'beta\\n'"),
    (MOVEMENT, "payer: beta", "payer: " + "b" * 64, 3, "63 characters at most"),
    (MOVEMENT, "payer: beta", "payer: {name: beta}", 3, "payer is a mapping: write a name"),
    (MOVEMENT, "payer: beta", "payer: null", 3, "payer is empty: write a name"),
    (MOVEMENT, "provider: alpha\n", "", 1, "lacks the field provider (the participant that is pa"),
    # --- parties
    (MOVEMENT, "payer: beta", "payer: alpha", 4, "provider is alpha, the payer too: name another"),
    (MOVEMENT, "payer: beta", "payer: betta", 3, "payer is betta, without a contract as partici"),
    (MOVEMENT, "payer: beta", "payer: betta", 3, "did you mean 'beta'?"),
    (MOVEMENT, "provider: alpha", "provider: zeno", 4, "write participants/zeno.yaml, with its pu"),
    (SUGGESTED, "instead: gamma", "instead: beta", 7, "instead is beta, a party of the contract: "),
    (SUGGESTED, "instead: gamma", "instead: alpha", 7, "a party of the contract: name a third pa"),
    (SUGGESTED, "instead: gamma", "instead: zeno", 7, "instead is zeno, without a contract as pa"),
    # --- unknown fields
    (MOVEMENT, "penalty: 5.00", "penalti: 5.00", 22, "penalti is not known here: did you mean 'pe"),
    (MOVEMENT, "currency: EUR", "currency: EUR\nstream: large", 6, "stream is for content and sug"),
    (SUGGESTED, "stream: result", "stream: result\nprice: 3", 7, "price is for movement and conte"),
    (SUGGESTED, "stream: result", "stream: result\ncurrency: EUR", 7, "of kind suggested: remove "),
    (MOVEMENT, "  step: 0.10", "  stepp: 0.10", 12, "price.stepp is not known here: did you mean "),
    (MOVEMENT, "  bound: 10s", "  with: 10s", 21, "availability.with is not known here: write rec"),
    (MOVEMENT, "until:", "til:", 6, "valid.til is not known here: did you mean 'until'?"),
    (MOVEMENT, "until:", "til:", 6, "valid lacks the field until (the moment at which it ends): a"),
    (MOVEMENT, "kind: movement", "kind: movement\n'a b': 1", 3, "'a b' is not known here: write c"),
    # --- amounts
    (MOVEMENT, "  low: 1.00", "  low: 1.40", 10, "price.low is 1.4, above price.high 1.3: exchang"),
    (MOVEMENT, "  low: 1.00", "  low: 0", 10, "price.low is 0: write a number above 0, such as 1"),
    (MOVEMENT, "  low: 1.00", "  low: -1.00", 10, "price.low is -1.00: write a number above 0, su"),
    (MOVEMENT, "  low: 1.00", '  low: "-1.00"', 10, "price.low is '-1.00': write a number above 0"),
    (MOVEMENT, "  low: 1.00", "  low: 1e3", 10, "price.low is '1e3': write a number above 0, such"),
    (MOVEMENT, "  low: 1.00", "  low: .inf", 10, "price.low is '.inf': write a number"),
    (MOVEMENT, "  low: 1.00", "  low: NaN", 10, "price.low is 'NaN': write a number"),
    (MOVEMENT, "  low: 1.00", "  low: 1,00", 10, "price.low is '1,00': write a number"),
    (MOVEMENT, "  low: 1.00", "  low: 1.00 EUR", 10, "price.low is '1.00 EUR': write a number"),
    (MOVEMENT, "  low: 1.00", "  low: true", 10, "price.low is true: write a number"),
    (MOVEMENT, "  low: 1.00", "  low:", 10, "price.low is empty: write a number"),
    (MOVEMENT, "  low: 1.00", '  low: "1.00\\n"', 10, "price.low is '1.00\\n': write a number"),
    (MOVEMENT, "  low: 1.00", "  low: 1.0000001", 10, "price.low is 1.0000001: write a number ab"),
    (MOVEMENT, "  low: 1.00\n", "", 9, "price lacks the field low (the lowest price): add it"),
    (MOVEMENT, "  high: 1.30", "  high: 1000000000001", 11, "price.high is 1000000000001: write a"),
    (MOVEMENT, "  step: 0.10", "  step: 0.07", 12, "price.step is 0.07, which does not lead from"),
    (MOVEMENT, "  step: 0.10", "  step: 0.0001", 12, "which makes 3,000 steps: write a step th"),
    (MOVEMENT, "  step: 0.10", "  step: 0", 12, "price.step is 0: write a number"),
    (MOVEMENT, "  step: 0.10\n", "", 9, "price lacks the field step (the step between two prices)"),
    (MOVEMENT, "load_max: 2.5", "load_max: 0.000", 14, "load_max is 0.000: write a number above 0"),
    (MOVEMENT, "load_max: 2.5", "load_max: [2.5]", 14, "load_max is a list: write a number"),
    (MOVEMENT, "load_unit: core", "load_unit: cores", 13, "load_unit is 'cores': did you mean 'co"),
    (MOVEMENT, "penalty: 5.00", "penalty: none", 22, "penalty is 'none': write a number from 0 on"),
    (CONTENT, 'price: "0.000001"', "price: 0.0000001", 9, "price is 0.0000001: write a number"),
    (CONTENT, 'price: "0.000001"', "price: {low: 1, high: 2}", 9, "price is a mapping: write a nu"),
    (CONTENT, "per: record", "per: month", 10, "per is 'month': write record or period"),
    (CONTENT, "per: record\n", "", 1, "lacks the field per (what the price is for): add it"),
    (MOVEMENT, "currency: EUR", "currency: euro", 5, "currency is 'euro': write three capitals"),
    (MOVEMENT, "currency: EUR", "currency: €€€", 5, "currency is '€€€': write three capitals, suc"),
    # --- times and durations
    (MOVEMENT, "until: 2027", "until: 2025", 6, "valid.until ends the contract before it begins: "),
    (MOVEMENT, "until: 2027", "until: 2026", 6, "the contract before it begins: write a time a"),
    (MOVEMENT, "2027-01-01T00:00:00Z", "null", 6, "valid.until is empty: write a time that exists"),
    (MOVEMENT, "2027-01-01T00:00:00Z", "2027-01-01", 6, "valid.until is '2027-01-01': write a tim"),
    (MOVEMENT, "2027-01-01T00:00:00Z", "2027-02-30T00:00:00Z", 6, "02-30T00:00:00Z': write a time"),
    (MOVEMENT, "2027-01-01T00:00:00Z", "2027-01-01T00:00:00+01:00", 6, "write a time that exists,"),
    (MOVEMENT, "2027-01-01T00:00:00Z", "1798761600", 6, "valid.until is 1798761600: write a time "),
    (MOVEMENT, "{from: 2026-01-01T00:00:00Z, until: 2027-01-01T00:00:00Z}", "{}", 6,
     "valid lacks the field from (the first moment): add it"),
    (MOVEMENT, "{from: 2026-01-01T00:00:00Z, until: 2027-01-01T00:00:00Z}", "always", 6,
     "valid is 'always': write {from: 2026-01-01T00:00:00Z, until: "),
    (MOVEMENT, "settlement: 1d", "settlement: daily", 7, "settlement is 'daily': write a duration"),
    (MOVEMENT, "settlement: 1d", "settlement: 0s", 7, "settlement is '0s': write a duration such"),
    (MOVEMENT, "settlement: 1d", "settlement: 900d", 7, "whole milliseconds, 366 days"),
    (MOVEMENT, "settlement: 1d", "settlement: 1.5", 7, "settlement is 1.5: write a duration"),
    (MOVEMENT, "settlement: 1d", "settlement: 5us", 7, "settlement is '5us': write a duration suc"),
    (MOVEMENT, "notice: 7d", "notice: -7", 8, "notice is -7: write a duration such as 7d, 366 day"),
    (MOVEMENT, "hold_max: 1d", "hold_max: 0", 23, "hold_max is 0: write a duration"),
    (MOVEMENT, "  bound: 10s", "  bound: none", 21, "availability.bound is 'none': write a durati"),
    # --- what moves, what is billed, what is promised
    (MOVEMENT, "moves: [first, second]", "moves: []", 15, "moves is an empty list: write any, or "),
    (MOVEMENT, "moves: [first, second]", "moves: all", 15, "moves is 'all': write any, or a list "),
    (MOVEMENT, "moves: [first, second]", "moves: [first, first]", 15, "moves[1] names 'first' aga"),
    (MOVEMENT, "moves: [first, second]", "moves: [first, 2]", 15, "moves[1] is 2: write a name"),
    (MOVEMENT, "moves: [first, second]", "moves: [fisrt]", 15, "moves[0] is fisrt, a fragment tha"),
    (MOVEMENT, "moves: [first, second]", "moves: [mine/first]", 15, "moves[0] is 'mine/first': wr"),
    (MOVEMENT, "moves: [first, second]", f"moves: [{MANY}]", 15, "moves has 1,001 items: write 1,"),
    (MOVEMENT, "reference:", "reads: []\nreference:", 16, "reads is an empty list: write a lis"),
    (MOVEMENT, "reference:", "reads: [sums]\nreference:", 16, "reads[0] is 'sums': write PARTICI"),
    (MOVEMENT, "reference:", "reads: [beta/sums]\nreference:", 16, "reads names beta/sums of a pa"),
    (CONTENT, "per: record", "per: record\nreads: [gamma/x]", 11, "reads is for movement contract"),
    (MOVEMENT, REFERENCE, "reference: []", 16, "reference is an empty list: write a list such as"),
    (MOVEMENT, REFERENCE, "reference: main", 16, "reference is 'main': write a list such as [mai"),
    (MOVEMENT, "first/seen=0.5", "first/seen", 16, "reference[0] is 'first/seen': write FRAGMENT/"),
    (MOVEMENT, "first/seen=0.5", "first/seen=0.50", 16, "reference[0] is 'first/seen=0.50': write"),
    (MOVEMENT, "second/seen=2", "first/seen=2", 1, "reference has two numbers for first/seen: kee"),
    (MOVEMENT, REFERENCE, "billed: [normal]", 16, "billed is not known here: write "),
    (MOVEMENT, "  recovery: precise", "  recovery: exact", 18, "availability.recovery is 'exact':"),
    (MOVEMENT, "  recovery: precise\n", "", 17, "availability lacks the field recovery (what a fa"),
    (MOVEMENT, "active_standby", "standby", 19, "availability.method is 'standby': did you mean '"),
    (MOVEMENT, "active_standby", "amnesia", 18, "availability.recovery is precise, but a failure "),
    (MOVEMENT, "  replicas: 2", "  replicas: 1", 20, "availability.replicas leaves method active_"),
    (MOVEMENT, "  replicas: 2", "  replicas: 3", 20, "availability.replicas is 3, but the payer "),
    (MOVEMENT, "active_standby", "passive_standby", 20, "availability.replicas is 2, but with met"),
    (MOVEMENT, "  replicas: 2", "  replicas: 0", 20, "availability.replicas is 0: write a whole n"),
    (MOVEMENT, "  replicas: 2", "  replicas: 1.5", 20, "availability.replicas is 1.5: write a who"),
    (MOVEMENT, "  replicas: 2", "  replicas: two", 20, "availability.replicas is 'two': write a w"),
    (CONTENT, "availability: {", "availability: precise # {", 11, "availability is 'precise': wri"),
    # --- streams
    (CONTENT, "stream: large", "stream: lagre", 8, "stream is lagre, a stream that no network in "),
    (CONTENT, "stream: large", "stream: lagre", 8, "did you mean 'large'?"),
    (SUGGESTED, "stream: result", "stream: nothing", 6, "there is large, result, ticks"),
    # --- YAML
    (MOVEMENT, "payer: beta", "payer: beta\npayer: beta", 4, "payer is written again, after line"),
    (MOVEMENT, "payer: beta", "payer: &b beta", 3, "payer has an anchor (&…); write values out"),
    (MOVEMENT, "payer: beta", "payer: *b", 3, "payer is an alias (*…); write the value out"),
    (MOVEMENT, "payer: beta", "payer: !!str beta", 3, "payer has a tag (!…); write a plain value"),
    (MOVEMENT, "payer: beta", "payer: [beta", 4, "this is not YAML"),
    (MOVEMENT, "payer: beta", "payer: " + "[" * 40 + "]" * 40, 3, "is nested more than 16 deep"),
    (MOVEMENT, "kind: movement", "kind: movement\n---", 3, "second document begins here"),
    (MOVEMENT, MOVEMENT, "- contract: spare\n", 1, "this is not a contract: begin with contract: "),
    (MOVEMENT, MOVEMENT, "spare\n", 1, "this is not a contract: begin with contract: N"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "old", "new", "line", "says"),
    long_but(30, WRONG, quick=True),
    ids=lambda value: str(value)[:40],
)
def test_an_error_is_reported_with_its_place(
    tmp_path: Path, text: str, old: str, new: str, line: int, says: str
) -> None:
    assert text.count(old) == 1
    name = {MOVEMENT: "spare", CONTENT: "large_for_beta", SUGGESTED: "elsewhere"}[text]
    findings = examine(tmp_path, {name: text.replace(old, new)}).findings
    sentences = [finding.sentence for finding in findings]
    told = [sentence for sentence in sentences if says in sentence]
    assert told, sentences
    assert f"bilateral/{name}.yaml, line {line}" in told[0]
    for finding in findings:
        if finding.line is not None:
            assert f"{finding.file}, line {finding.line}" in finding.sentence


def test_nothing_is_wrong_with_the_texts_that_are_changed_here(tmp_path: Path) -> None:
    for name, text in (("spare", MOVEMENT), ("large_for_beta", CONTENT), ("elsewhere", SUGGESTED)):
        assert examine(tmp_path / name, {name: text}).findings == ()


def test_all_errors_are_reported_at_once_from_top_to_bottom(tmp_path: Path) -> None:
    wrong = MOVEMENT.replace("EUR", "euro").replace("  low: 1.00", "  low: x")
    wrong = wrong.replace("hold_max: 1d", "hold: 1d")
    findings = examine(tmp_path, {"spare": wrong, "elsewhere": "kind: x\n"}).findings
    assert [(Path(f.file).name, f.line, f.field) for f in findings] == [
        ("elsewhere.yaml", 1, "kind"),
        ("spare.yaml", 5, "currency"),
        ("spare.yaml", 10, "price.low"),
        ("spare.yaml", 23, "hold"),
    ]


def test_values_that_have_the_right_shape_are_all_read_before_anything_is_told(
    tmp_path: Path,
) -> None:
    wrong = MOVEMENT.replace("settlement: 1d", "settlement: 999d").replace("1.30", "1.0000001")
    wrong = wrong.replace("2026-01-01", "2026-02-30").replace("load_max: 2.5", "load_max: 0")
    findings = examine(tmp_path, {"spare": wrong}).findings
    assert [f.field for f in findings] == ["valid.from", "settlement", "price.high", "load_max"]
