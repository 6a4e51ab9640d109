"""`medusa contract …`: the commands about contracts, each added to the parser here.

Nothing heavy is imported before one of them runs. A further one is a function that adds its parser,
in `COMMANDS`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from pipelines.base.settings import Settings

Run = Callable[[argparse.Namespace, Settings], int]


def add_contract_commands(contract: argparse.ArgumentParser) -> None:
    """Add `check`, `export`, `what-if` and what else there is behind `medusa contract`."""
    commands = contract.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands)


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: Run, text: str
) -> argparse.ArgumentParser:
    """Add one command: what runs it, and the sentence that says what it does."""
    added: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    added.set_defaults(command=run)
    return added


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "check bilateral contracts, and print what each says"
    added = add_command(commands, "check", _check, text)
    _contracts(added)
    added.add_argument("--json", action="store_true", help="print one JSON document")


def _check(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.contract_check import check_contracts

    return check_contracts(settings, options.contracts, as_json=options.json)


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "write a stream's shape and promise as an Open Data Contract (ODCS 3.1)"
    added = add_command(commands, "export", _export, text)
    added.add_argument("stream", metavar="STREAM", help="which")
    output = "write it there, replacing what is there (default: print it)"
    added.add_argument("--output", type=Path, metavar="FILE", help=output)
    price = "with the price of this content contract (default: of the only one that sells it)"
    added.add_argument("--contract", metavar="NAME", help=price)
    _contracts(added)


def _export(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.contract_export import export_contract

    return export_contract(
        settings,
        options.contracts,
        options.stream,
        contract=options.contract,
        output=options.output,
    )


def _add_what_if(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "replay recorded load with a changed contract: moves, payments, overload"
    added = add_command(commands, "what-if", _what_if, text)
    edit = "a change, as `contract NAME SET price_high = 1.30`, or as SQL says it; repeatable"
    added.add_argument("--edit", action="append", default=[], metavar="EDIT", help=edit)
    file = "a contract's file, as if it were agreed on; repeatable"
    added.add_argument("--file", action="append", default=[], type=Path, metavar="FILE", help=file)
    over = "how far back, such as 24h (the default), 7d at most"
    added.add_argument("--over", default="24h", metavar="DURATION", help=over)
    whose = "whose home (default: the only one)"
    added.add_argument("--participant", metavar="P", help=whose)
    added.add_argument("--json", action="store_true", help="print one JSON document")


def _what_if(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.contract_what_if import what_if

    return what_if(
        settings,
        options.participant,
        options.edit,
        options.file,
        over=options.over,
        as_json=options.json,
    )


def _add_login(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "print how the owner logs in to a home, with the password: for psql"
    added = add_command(commands, "login", _login, text)
    added.add_argument("--participant", metavar="P", help="whose home (default: the only one)")


def _login(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.contract_login import print_login

    return print_login(settings, options.participant)


def _contracts(added: argparse.ArgumentParser) -> None:
    folder = "the contracts folder (default: contracts)"
    added.add_argument(
        "--contracts", type=Path, default=Path("contracts"), metavar="DIR", help=folder
    )


COMMANDS: tuple[Callable[[argparse._SubParsersAction[argparse.ArgumentParser]], None], ...] = (
    _add_check,
    _add_export,
    _add_what_if,
    _add_login,
)
