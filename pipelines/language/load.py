"""Loading of networks: by the name of a shipped one, or from a user's own file, Python or SQL.

A user's Python file is run under a separate name: it cannot replace a module of Medusa, its folder
is not searched for imports, and any error in it is one sentence with file and line. It is code
that the user chose to run, with the user's rights. A SQL file is compiled and runs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from medusa_core.errors import Refused
from medusa_core.network import Aggregate, Network
from medusa_core.suggest import did_you_mean
from medusa_core.user_aggregates import trial
from pipelines.language.checked_partitions import with_checked_partitions
from pipelines.language.function_text import function_sources
from pipelines.language.network_mistakes import mistake_in_a_network
from pipelines.language.sql.sql_file import SUFFIX, network_of_sql
from pipelines.language.zone_database import with_zone_offsets

__all__ = ["SHIPPED", "function_sources", "load_network"]

SHIPPED = ("netmon", "netmon3", "road_sensors", "trade_bars")
_MODULE = "medusa_user_network"


def load_network(name_or_path: str) -> Network:
    """The network of that name, or of that file; raises Refused, naming file and line.

    Its calendar windows have the offsets of their zones, and its partitions their fragments.
    """
    return with_checked_partitions(with_zone_offsets(_network_named(name_or_path)))


def _network_named(name_or_path: str) -> Network:
    if name_or_path in SHIPPED:
        network = import_module(f"pipelines.language.shipped.{name_or_path}").network
        assert isinstance(network, Network)
        return network
    try:
        path = Path(name_or_path).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError, ValueError):
        raise Refused(f"{name_or_path!r} names neither a network nor a file: check it") from None
    if is_folder:
        raise Refused(f"{name_or_path} is a folder: name the network file inside it")
    if path.suffix == SUFFIX:
        return network_of_sql(path)
    if path.suffix != ".py" and not is_file:
        near = did_you_mean(name_or_path, SHIPPED)
        hint = f"{near} " if near else ""
        raise Refused(
            f"there is no network {name_or_path!r}: {hint}name one of {', '.join(SHIPPED)}, or a "
            "file of your own, Python or SQL"
        )
    return _network_of_file(path)


def _network_of_file(path: Path) -> Network:
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise Refused(f"there is no file {path}: check the path") from None
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror}): check its rights") from None
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise Refused(f"{path}{line}: {error.msg}; correct the Python") from None
    except ValueError as error:
        raise Refused(f"{path} is not Python ({error}): name a network file") from None
    except (MemoryError, RecursionError):
        raise Refused(f"{path} is nested too deeply for Python: write it flatter") from None
    module = ModuleType(_MODULE)
    module.__file__ = str(path)
    # Known by name only while it runs (dataclasses look themselves up): later its functions are
    # sent to Spark's workers by value, since no worker could import them.
    sys.modules[_MODULE] = module
    try:
        exec(code, module.__dict__)
    except Refused as error:
        raise Refused(f"{_place(path, error)}: {error}") from None
    except ModuleNotFoundError as error:
        raise Refused(
            f"{_place(path, error)}: no module named {error.name!r}; a network file can import "
            "installed "
            "packages only"
        ) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's own code raises
        sentence = mistake_in_a_network(error) or _sentence_of(error)
        raise Refused(f"{_place(path, error)}: {sentence}") from None
    finally:
        del sys.modules[_MODULE]
    network = _value(path, module)
    try:
        _try_functions(network)
    except Refused as error:
        raise Refused(f"{path}: {error}") from None
    return network


def _try_functions(network: Network) -> None:
    """Refuse aggregate functions of the user's own that have no value of no record.

    Any group may be one in which no record counts, since its arguments are NULL.
    """
    for box in network.boxes:
        for aggregate in box.aggregates if isinstance(box, Aggregate) else ():
            trial(aggregate, [])


def _sentence_of(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - a user's error may fail to tell itself
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _value(path: Path, module: ModuleType) -> Network:
    network = getattr(module, "network", None)
    if isinstance(network, Network):
        return network
    if network is not None:
        raise Refused(
            f"{path}: `network` is {type(network).__name__!r}; write network = Network(name=…, "
            "sources=…, boxes=…, outputs=…)"
        )
    others = [n for n, value in vars(module).items() if isinstance(value, Network)]
    hint = f"; rename {others[0]!r}" if others else ""
    raise Refused(f"{path} has no value named `network` at its top level{hint}")


def _place(path: Path, error: BaseException) -> str:
    """The file and the last line of it that was running when the error was raised."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}, line {line}" if line else str(path)
