"""`medusa explain NETWORK`: what each box and output needs, waits for and costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medusa_core.explanation import ExplainedBox, Explanation, explain
from medusa_core.names import FragmentName
from medusa_core.suggest import counted
from pipelines.base.text_table import table
from pipelines.base.time_text import duration
from pipelines.language.check import check_network, fallible_boxes, fragments_for
from pipelines.language.load import load_network
from pipelines.spark.execution_mode import (
    KERNEL_RECORDS_MIN,
    KERNEL_ROWS_MAX,
    PREPARED_RECORDS_MAX,
)
from pipelines.spark.prepared_form import reasons_against_kernels

_RANGES = (
    "A row at time t of a stream is computed from the records of its inputs in that range.\n"
    "There is no other state: the records are kept as long as a row may need them."
)


def explain_network(reference: str, *, as_json: bool) -> int:
    """Print the explanation of a network; Refused for one that cannot run."""
    checked = check_network(load_network(reference))
    fragments = fragments_for(checked)
    explained = explain(checked.network, fragments, fallible_boxes(checked))
    reasons = reasons_against_kernels(fragments, checked)
    if as_json:
        print(json.dumps(_document(explained, reasons), indent=1))
    else:
        print(_text(explained, reasons))
    return 0


def _text(explained: Explanation, reasons: Mapping[FragmentName, str | None]) -> str:
    network = explained.network
    boxes = len(network.boxes)
    counts = (
        counted(len(network.sources), "source"),
        "1 box" if boxes == 1 else f"{boxes:,} boxes",
        counted(len(network.outputs), "output"),
    )
    heading = f"network {network.name}: {', '.join(counts)}; buckets of {network.bucket}"
    if not boxes:
        return f"{heading}\n\nIt computes nothing: its records are there for other networks."
    of_boxes = table(
        ("box", "kind", "fragment", "reads", "CPU", "records that fail"),
        [_row_of_box(box) for box in explained.boxes],
    )
    of_streams = table(
        ("stream", "fragment", "input", "from", "to", "while the input is missing"),
        list(_rows_of_outputs(explained)),
    )
    return "\n\n".join(
        [
            heading,
            of_boxes,
            "\n".join(_engine_text(name, reason) for name, reason in reasons.items()),
            _cost_text(explained),
            of_streams,
            _RANGES,
        ]
    )


def _row_of_box(box: ExplainedBox) -> Sequence[object]:
    cost = "not known" if box.cost_us is None else _seconds(box.share_us)
    fails = "quarantine" if box.can_fail else ""
    return box.name, box.kind, box.fragment, ", ".join(box.inputs), cost, fails


def _engine_text(name: FragmentName, reason: str | None) -> str:
    if reason is not None:
        return f"Fragment {name}: Spark SQL computes all steps, since {reason}."
    return (
        f"Fragment {name}: DuckDB in a task of Spark computes steps of {KERNEL_RECORDS_MIN:,} to "
        f"{PREPARED_RECORDS_MAX:,} records that give up to {KERNEL_ROWS_MAX:,} rows, "
        "Spark SQL all others."
    )


def _cost_text(explained: Explanation) -> str:
    lacks = ", without the boxes of which it is not known" if explained.has_unknown_cost else ""
    return (
        f"CPU for a million records of the sources: about {_seconds(explained.cost_us)}{lacks}; "
        f"{_seconds(explained.read_us)} to read them.\n"
        "This is an estimate by the kinds of the boxes, if no Filter drops a record."
    )


def _seconds(us_per_record: float) -> str:
    """Microseconds a record are seconds a million records."""
    return f"{us_per_record:.2f} s"


def _rows_of_outputs(explained: Explanation) -> Iterator[Sequence[object]]:
    for output in explained.outputs:
        for at, one in enumerate(output.inputs):
            names = (output.stream, output.fragment) if at == 0 else ("", "")
            yield (
                *names,
                one.stream,
                _before(one.back_us),
                _before(one.delay_us),
                one.without.value,
            )


def _before(length_us: int) -> str:
    return f"t - {duration(length_us)}" if length_us else "t"


def _document(
    explained: Explanation, reasons: Mapping[FragmentName, str | None]
) -> Mapping[str, Any]:
    network = explained.network
    return {
        "network": network.name,
        "bucket": network.bucket,
        "cpu_us_per_record": round(explained.cost_us, 3),
        "read_us_per_record": round(explained.read_us, 3),
        "has_unknown_cost": explained.has_unknown_cost,
        "boxes": [
            {
                "box": box.name,
                "kind": box.kind,
                "fragment": box.fragment,
                "reads": list(box.inputs),
                "records_per_record": round(box.records, 6),
                "cpu_us_per_record": None if box.cost_us is None else round(box.share_us, 3),
                "can_fail": box.can_fail,
            }
            for box in explained.boxes
        ],
        "fragments": [
            {"fragment": name, "has_kernel": reason is None, "reason": reason}
            for name, reason in reasons.items()
        ],
        "streams": [
            {
                "stream": output.stream,
                "fragment": output.fragment,
                "inputs": [
                    {
                        "stream": one.stream,
                        "from_before_us": one.back_us,
                        "to_before_us": one.delay_us,
                        "without": one.without.name.lower(),
                    }
                    for one in output.inputs
                ],
            }
            for output in explained.outputs
        ],
    }
