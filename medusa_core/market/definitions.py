"""Definitions: boxes that a buyer defines over a stream that it buys, and that the seller runs.

A content contract in force lets the buyer do so (`Content.boxes`). The document has expressions as
text and no code; its source is the stream of the contract, whose columns the seller knows.
So a definition can name no other stream. Whether its expressions are allowed is checked where a
parser is at hand, by the seller, as of any network.

Source: CIDR 2003, 6.5 (remote definition).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from medusa_core.errors import Refused
from medusa_core.market.terms import BoxKind, ContractName
from medusa_core.names import NAME_LENGTH_MAX, Participant, StreamName, check_name
from medusa_core.network import Aggregate, Box, Filter, Map, Network, Output, Source
from medusa_core.plans import network_document
from medusa_core.suggest import shown

FORMAT = "medusa.definition/1"
DEFINITION_BYTES_MAX = 16 * 1024
BOXES_MAX = 16
EXPRESSIONS_MAX = 64
EXPRESSION_LENGTH_MAX = 1_000
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "filter": ("name", "input", "cases", "otherwise"),
    "map": ("name", "input", "columns"),
    "aggregate": ("name", "input", "size", "advance", "group_by", "columns"),
}
_CALENDAR = ("every", "zone", "zone_offsets")
"""More fields of an Aggregate, if it has calendar windows."""
DefinedBox = Filter | Map | Aggregate


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Boxes under a contract; `output` is the port whose records are sent.

    A box names its input by the source, which has the name of the stream, or by a box before it.
    """

    contract: ContractName
    name: StreamName
    boxes: tuple[DefinedBox, ...]
    output: str

    @property
    def expressions(self) -> tuple[str, ...]:
        """All expressions of its boxes."""
        return tuple(text for box in self.boxes for text in _expressions_of(box).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionEnvelope:
    """A buyer's message about a definition: no boxes, if it is withdrawn; `number` counts them."""

    contract: ContractName
    name: StreamName
    number: int
    document: str
    definition: Definition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedEnvelope:
    """A seller's message: a definition of the receiver's runs, is refused or has ended, and why."""

    contract: ContractName
    name: StreamName
    state: str
    reason: str | None


def defined_stream(buyer: Participant, name: str) -> StreamName:
    """The stream that the boxes write in the home of the seller; Refused if it is too long."""
    stream = f"{buyer}__{check_name('definition', name)}"
    if len(stream) > NAME_LENGTH_MAX:
        raise Refused(
            f"stream {stream} would be longer than {NAME_LENGTH_MAX} characters: choose a shorter "
            "name"
        )
    return StreamName(stream)


def definition_of(
    network: Network, contract: ContractName, provider: Participant, stream: StreamName
) -> Definition:
    """The definition that a network file of the buyer makes.

    Raises Refused unless the network has one source, which reads the stream of the contract, one
    output, and boxes that a definition may have.
    """
    if len(network.sources) != 1 or len(network.outputs) != 1:
        raise Refused(
            f"network {network.name} has {len(network.sources)} sources and "
            f"{len(network.outputs)} outputs: a definition has one of each"
        )
    (source,), (output,) = network.sources, network.outputs
    if source.stream != f"{provider}/{stream}":
        raise Refused(
            f"source {source.name} of network {network.name} reads {source.stream or 'files'}: "
            f"contract {contract} sells {provider}/{stream}"
        )
    document = network_document(network)
    boxes = [
        {key: value for key, value in box.items() if key != "fragment"}
        for box in _list(document["boxes"])
    ]
    for box in boxes:
        if box["kind"] not in _FIELDS:
            raise Refused(
                f"box {box['name']} of network {network.name} is a {box['kind']}: a definition has "
                f"boxes of kinds {', '.join(_FIELDS)}"
            )
        if box["input"].partition(".")[0] == source.name:
            box["input"] = stream
    port = stream if output.input == source.name else output.input
    fields = {
        "format": FORMAT,
        "contract": contract,
        "name": output.name,
        "boxes": boxes,
        "output": port,
    }
    return read_definition(fields)


def document_of_definition(definition: Definition) -> str:
    """The document as JSON with sorted keys."""
    fields = {
        "format": FORMAT,
        "contract": definition.contract,
        "name": definition.name,
        "boxes": [_box_fields(box) for box in definition.boxes],
        "output": definition.output,
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def read_definition(given: object) -> Definition:
    """The definition in a document; Refused for anything that is not just that."""
    match given:
        case {
            "format": "medusa.definition/1",
            "contract": str(contract),
            "name": str(name),
            "boxes": list(boxes),
            "output": str(output),
            **rest,
        } if not rest:
            pass
        case _:
            raise Refused(f"this is no definition: a document has format {FORMAT} and its fields")
    if not 1 <= len(boxes) <= BOXES_MAX:
        raise Refused(f"definition {shown(name)} has {len(boxes)} boxes: write 1 to {BOXES_MAX}")
    definition = Definition(
        contract=ContractName(check_name("contract", contract)),
        name=StreamName(check_name("definition", name)),
        boxes=tuple(_box(box) for box in boxes),
        output=output,
    )
    expressions = definition.expressions
    if len(expressions) > EXPRESSIONS_MAX:
        raise Refused(
            f"definition {name} has {len(expressions)} expressions: write {EXPRESSIONS_MAX} at most"
        )
    if any(len(text) > EXPRESSION_LENGTH_MAX for text in expressions):
        raise Refused(
            f"definition {name} has an expression of more than {EXPRESSION_LENGTH_MAX} "
            "characters: split it among boxes"
        )
    if len(document_of_definition(definition)) > DEFINITION_BYTES_MAX:
        raise Refused(f"definition {name} is longer than {DEFINITION_BYTES_MAX // 1024} KiB")
    return definition


def message_of_definition(body: bytes) -> DefinitionEnvelope:
    """A buyer's message; raises Refused, or what JSON raises, for anything else."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused("this is no definition: send one as Medusa writes it") from None
    number = given.pop("number")
    if type(number) is not int or not 0 < number < 2**53:
        raise Refused("a message about a definition has a number from 1 on")
    is_withdrawn = given.get("boxes") == []
    definition = None if is_withdrawn else read_definition(given)
    return DefinitionEnvelope(
        contract=ContractName(check_name("contract", given["contract"])),
        name=StreamName(check_name("definition", given["name"])),
        number=number,
        document="" if definition is None else document_of_definition(definition),
        definition=definition,
    )


def network_of_definition(
    definition: Definition,
    buyer: Participant,
    stream: StreamName,
    columns: Mapping[str, str],
    allowed: frozenset[BoxKind],
) -> Network:
    """The network that the seller runs; Refused for a kind of box that the contract does not allow.

    `columns` are those of the stream in the home of the seller.
    """
    for box in definition.boxes:
        kind = BoxKind(type(box).__name__.lower())
        if kind not in allowed:
            names = ", ".join(sorted(one.value for one in allowed))
            raise Refused(
                f"box {box.name} is of kind {kind.value}: contract {definition.contract} allows "
                f"{names}"
            )
    name = defined_stream(buyer, definition.name)
    return Network(
        name=name,
        sources=(Source(name=stream, stream=stream, columns=columns),),
        boxes=definition.boxes,
        outputs=(Output(name=name, input=definition.output),),
    )


def exceeds(load: float, load_max: Decimal) -> bool:
    """Whether boxes take more than the contract lets them."""
    return load > float(load_max)


def _box(given: object) -> DefinedBox:
    kind = given.get("kind") if isinstance(given, dict) else given
    if not isinstance(given, dict) or not isinstance(kind, str) or kind not in _FIELDS:
        raise Refused(f"a box of a definition is of kind {', '.join(_FIELDS)}, not {shown(kind)}")
    fields = {name: value for name, value in given.items() if name != "kind"}
    more = set(_CALENDAR) & set(fields) if kind == "aggregate" else set()
    if set(fields) - more != set(_FIELDS[kind]) or len(more) not in (0, len(_CALENDAR)):
        raise Refused(f"a {kind} of a definition has the fields {', '.join(_FIELDS[kind])}")
    name = check_name("box", fields["name"])
    if not isinstance(fields["input"], str):
        raise Refused(f"box {name} of a definition has an input that is no text")
    match kind:
        case "filter":
            return Filter(
                name=name,
                input=fields["input"],
                cases=_pairs(name, fields["cases"]),
                otherwise=_text_or_none(name, fields["otherwise"]),
            )
        case "map":
            return Map(name=name, input=fields["input"], columns=_pairs(name, fields["columns"]))
        case _:
            calendar: dict[str, Any] = {field: _text(name, fields[field]) for field in more}
            return Aggregate(
                name=name,
                input=fields["input"],
                size=_text_or_none(name, fields["size"]),
                advance=_text_or_none(name, fields["advance"]),
                **calendar,
                group_by=tuple(_text(name, one) for one in _list(fields["group_by"])),
                columns=_pairs(name, fields["columns"]),
            )


def _pairs(box: str, given: object) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in _list(given):
        if not isinstance(pair, list) or len(pair) != 2:
            raise Refused(f"box {box} of a definition lists names with expressions")
        name = _text(box, pair[0])
        if name in found:
            raise Refused(f"box {box} of a definition names {shown(name)} twice")
        found[name] = _text(box, pair[1])
    return found


def _list(given: object) -> Sequence[Any]:
    if isinstance(given, list) and len(given) <= EXPRESSIONS_MAX:
        return given
    raise Refused(f"a definition has lists of {EXPRESSIONS_MAX} items at most")


def _text(box: str, given: object) -> str:
    if isinstance(given, str):
        return given
    raise Refused(f"box {box} of a definition has {shown(given)} where a text belongs")


def _text_or_none(box: str, given: object) -> str | None:
    return None if given is None else _text(box, given)


def _expressions_of(box: DefinedBox) -> Mapping[str, str]:
    return box.cases if isinstance(box, Filter) else box.columns


def _box_fields(box: Box) -> dict[str, object]:
    kind = type(box).__name__.lower()
    fields: dict[str, object] = {"kind": kind}
    is_calendar = isinstance(box, Aggregate) and box.every is not None
    for name in (*_FIELDS[kind], *(_CALENDAR if is_calendar else ())):
        value = getattr(box, name)
        if isinstance(value, Mapping):
            value = [[key, text] for key, text in value.items()]
        fields[name] = list(value) if isinstance(value, tuple) else value
    return fields
