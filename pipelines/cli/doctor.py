"""`medusa doctor`: check this machine and the homes, and print what to do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medusa_core.errors import CheckFailed
from pipelines.base.settings import Settings
from pipelines.base.text_table import facts
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from pipelines.base.redaction import SafeText
    from pipelines.operations.findings import Finding

HELP = "check this machine and the homes, and say what to do"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa doctor`."""
    page = "check only what the operator's page needs, on the machine of Airflow's API server"
    parser.add_argument("--page", action="store_true", help=page)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run every check and print the findings; 1 if a check failed."""
    from pipelines.base.redaction import SafeText
    from pipelines.operations.findings import has_failed

    safe = SafeText([settings.catalog_url])
    findings = list(_findings(options, settings))
    if options.json:
        print(json.dumps(document(findings, safe), indent=1))
    else:
        print(render(findings, safe))
    return CheckFailed.exit_code if has_failed(findings) else 0


def _findings(options: argparse.Namespace, settings: Settings) -> Iterable[Finding]:
    if options.page:
        from pipelines.operations.page_checks import page_findings

        return page_findings(settings)
    from pipelines.operations.machine_checks import check_machine

    return check_machine(settings)


def document(findings: Sequence[Finding], safe: SafeText) -> Mapping[str, Any]:
    """The findings for JSON; `safe` removes secrets."""
    from pipelines.operations.findings import has_failed

    checks = [
        {"name": f.name, "state": f.state.value, "found": safe(f.found), "to_do": safe(f.to_do)}
        for f in findings
    ]
    return {"ok": not has_failed(findings), "checks": checks}


def render(findings: Sequence[Finding], safe: SafeText) -> str:
    """The findings for a terminal; `safe` removes secrets."""
    from pipelines.operations.findings import State

    words = {State.OK: "ok", State.WARN: "warn", State.FAIL: "FAIL"}
    return facts(
        (words[f.state], f.name, safe(f"{f.found}: {f.to_do}" if f.to_do else f.found))
        for f in findings
    )
