"""The form of a fragment that is prepared, and whether it has a kernel. No session is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from medusa_core.columns import Column
from medusa_core.failure_rules import failure_rules
from medusa_core.fragments import Fragment, fragments_of
from medusa_core.names import FragmentName, StreamName
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
    """The form of a fragment over panes whose steps leave rows to the next step.

    `plain` is the form that leaves none; it is returned where no box can leave rows.
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


def reasons_against_kernels(
    fragments: Iterable[Fragment], checked: CheckedNetwork
) -> Mapping[FragmentName, str | None]:
    """For each fragment of a network why no step is computed by a kernel; None if it has one."""
    paned, folded = over_panes(checked)
    over = {f.id: f for f in fragments_of(paned.network)} if folded else {}
    return {
        f.name: _reason(over.get(f.id, f), paned, folded, columns_of(f, checked)) for f in fragments
    }


def _reason(
    fragment: Fragment,
    checked: CheckedNetwork,
    folded: Collection[str],
    columns: Mapping[StreamName, Sequence[Column]],
) -> str | None:
    plain = compile_fragment(fragment, checked)
    try:
        kernel_sql(prepared_form(fragment, checked, folded, plain), columns)
    except NotInKernel as reason:
        return str(reason)
    return None


def columns_of(
    fragment: Fragment, checked: CheckedNetwork
) -> Mapping[StreamName, Sequence[Column]]:
    """The columns of each relation that the fragment's job reads."""
    columns = {stream: checked.columns[port] for port, stream in fragment.inputs.items()}
    return columns | emitted_columns(fragment, checked)
