"""The form of a fragment that is prepared, and whether it has a kernel. No session is needed."""

from __future__ import annotations

from collections.abc import Collection

from medusa_core.failure_rules import failure_rules
from medusa_core.fragments import Fragment, fragments_of
from pipelines.language.check import CheckedNetwork
from pipelines.language.panes import over_panes
from pipelines.spark.compiled_fragment import CompiledFragment
from pipelines.spark.compiler import compile_fragment
from pipelines.spark.emitted_rows import emitted_columns
from pipelines.spark.kernel_expressions import NotInKernel
from pipelines.spark.kernel_sql import kernel_sql
from pipelines.spark.step_panes import carried_boxes, leaving


def prepared_form(
    fragment: Fragment, checked: CheckedNetwork, folded: Collection[str], plain: CompiledFragment
) -> CompiledFragment:
    """A fragment over panes in the form in which it leaves to the next step what it can.

    `plain` is its other form, which is returned where there is nothing to leave.
    """
    partials = carried_boxes(fragment, checked)
    found = leaving(fragment, folded, partials)
    if not found.panes and not found.carried:
        return plain
    carried = {box: partials[box] for box in found.carried}
    # Outputs lie in the same slots either way.
    compiled = compile_fragment(fragment, checked, found.panes, carried)
    if carried:
        rules = failure_rules(fragment)
        passing = (rules.of(f.box, is_window=f.is_window) for f in compiled.fallible
                   if f.box in found.passing)  # fmt: skip
        # A failed row that comes once must be reported by the step in which it comes.
        if not all(rule.is_at_once for rule in passing):
            return plain
    return compiled


def reason_against_kernel(fragment: Fragment, checked: CheckedNetwork) -> str | None:
    """Why no step of a fragment is computed by a kernel; None if it has one."""
    paned, folded = over_panes(checked)
    over = {f.id: f for f in fragments_of(paned.network)}[fragment.id] if folded else fragment
    compiled = prepared_form(over, paned, folded, compile_fragment(over, paned))
    columns = {stream: checked.columns[port] for port, stream in fragment.inputs.items()}
    columns |= emitted_columns(fragment, checked)
    try:
        kernel_sql(compiled, columns)
    except NotInKernel as reason:
        return str(reason)
    return None
