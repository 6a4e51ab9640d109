"""Command lines, home.json and environment: what a hand, a script or somebody else's program gives.

`{at}` stands for the folder that the command works in.
"""

from __future__ import annotations

import json

from tests.hostile.cases.shapes import ESCAPES, MARKUP, SHELL, SQL, CommandCase

CSV = b"ts,orig_h\n1,a\n"
PYTHON = b"network = None\n"


def refused(name: str, says: str, *words: str, code: int = 2, **files: bytes) -> CommandCase:
    """A command that is refused; a file is called as its keyword, with a dot for each `__`."""
    given = {name.replace("__", "."): content for name, content in files.items()}
    return CommandCase(name=name, words=words, says=says, exit_code=code, files=given)


def home(name: str, content: bytes, says: str = "cannot be read as Medusa wrote it") -> CommandCase:
    """`medusa streams` in a folder whose home.json holds this."""
    return CommandCase(
        name=f"home.json: {name}",
        words=("streams",),
        says=says,
        files={"home/home.json": content},
    )


def homes(**fields: object) -> bytes:
    """A home.json with these fields."""
    return json.dumps(fields).encode()


def catalog(name: str, url: str, says: str, code: int = 4) -> CommandCase:
    """`medusa streams` with this URL."""
    return CommandCase(
        name=f"catalog: {name}",
        words=("streams", "--participant", "alpha"),
        says=says,
        exit_code=code,
        environment={"MEDUSA_CATALOG_URL": url},
    )


USAGE = (
    refused("no command", "required: COMMAND"),
    refused("a command of nobody", "no command", "reed"),
    refused("a command with escapes", "no command", ESCAPES),
    refused("a command with markup", "no command", MARKUP),
    refused("a command of 100,000 letters", "no command", "a" * 100_000),
    refused("a command that is half a surrogate", "no command", "\udcff"),
    refused("an option of nobody", "no option", "streams", "--jsn"),
    refused("an option with escapes", "option|unrecognized", "streams", f"--{ESCAPES}"),
    refused("an argument too many with escapes", "unrecognized", "streams", ESCAPES),
    refused("a limit of nothing", "number above zero", "read", "x", "--limit", "0"),
    refused("a limit below zero", "number above zero", "read", "x", "--limit=-1"),
    refused("a limit of 5,000 digits", "number above zero", "read", "x", "--limit", "9" * 5_000),
    refused(
        "a limit in Arabic digits beyond all", "number above zero", "read", "x", "--limit", "٩" * 30
    ),
    refused("a limit with escapes", "number above zero", "read", "x", "--limit", ESCAPES),
    refused("a seed of text", "seed", "generate", "out", "--seed", "many"),
    refused("a seed of 5,000 digits", "seed", "generate", "out", "--seed", "9" * 5_000),
    refused("a watch that never ends", "number of seconds", "status", "--watch", "inf"),
    refused("a watch of NaN", "number of seconds", "status", "--watch", "nan"),
    refused("a lease below zero", "number of seconds", "tick", "--lease=-1"),
    refused("a format of nobody", "format", "generate", "out", "--format", "exe"),
    refused("a shell of nobody", "SHELL|shell", "completion", SHELL),
    refused("a simulation of nobody", "faults", "simulate", "weather"),
    refused("two ways to trim", "not allowed with", "trim", "--keep", "1d", "--before", "0"),
)

NAMES = (
    refused("a participant with SQL", "not a name", "streams", "--participant", SQL),
    refused("a participant that climbs", "not a name", "streams", "--participant", "../../etc"),
    refused("a participant with escapes", "not a name", "status", "--participant", ESCAPES),
    refused("a participant with a shell command", "not a name", "trim", "--participant", SHELL),
    refused("a participant in markup", "not a name", "read", "x", "--participant", MARKUP),
    refused(
        "a participant with a brace", "not a name", "migrate", "--participant", "{participant}"
    ),
    refused("a participant of nobody", "no home", "streams", "--participant", "nobody"),
    refused("no home at all", "there is no home", "streams"),
    refused("a project called by a path", "not a name", "init", "new", "--name", "../x"),
    refused("a project with SQL", "not a name", "init", "new", "--name", SQL),
    refused(
        "a project where a file is", "not a folder|no folder|file", "init", "{at}/file", file=b"x"
    ),
    refused("a read without a stream", "name the stream", "read"),
    refused("a read from nowhere", "no time", "read", "x", "--from", ESCAPES),
    refused("a read from 1e999999999", "no time", "read", "x", "--from", "1e999999999"),
    refused(
        "a read that ends before it begins", "not before", "read", "x", "--from", "2", "--to", "1"
    ),
    refused("a recall from nowhere", "no time", "recall", "x", "--from", ESCAPES),
    refused("a recall without a reason", "say why", "recall", "x", "--from", "1"),
    refused("a recall of escapes", "control", "recall", "x", "--from", "1", "--because", ESCAPES),
    refused(
        "a reason of 100,000 letters",
        "in 1000",
        "recall",
        "x",
        "--from",
        "1",
        "--because",
        "a" * 100_000,
    ),
    refused(
        "a partner that climbs", "not a name", "recall", "x", "--from", "1", "--follow", "../x"
    ),
    refused("an explanation of nobody", "diverged", "explain", SHELL),
    refused("a trim for Arabic days", "is not one", "trim", "--keep", "٣d"),
    refused("a grace of nothing", "out of range", "trim", "--orphans", "--grace", "0s"),
)

FILES = (
    refused("a network of nobody", "netmon", "replay", "netmonn", "--input", "x.csv"),
    refused("a network with escapes", "no network", "replay", ESCAPES, "--input", "x.csv"),
    refused(
        "a network of 100,000 letters", "neither a network", "replay", "a" * 100_000, "--input", "x"
    ),
    refused("a network that is a folder", "is a folder", "replay", "{at}", "--input", "x.csv"),
    refused(
        "a network that is a pipe of the system",
        "network|Python",
        "replay",
        "/dev/null",
        "--input",
        "x",
    ),
    refused("an input that is not there", "none.csv", "replay", "netmon", "--input", "none.csv"),
    refused("an input with escapes", "input|no file|there", "replay", "netmon", "--input", ESCAPES),
    refused("an input of 100,000 letters", "a", "replay", "netmon", "--input", "a" * 100_000),
    refused("an input that is a folder", "folder|file", "replay", "netmon", "--input", "{at}"),
    refused("an input that is a device", "is a device", "replay", "netmon", "--input", "/dev/zero"),
    refused(
        "an input twice",
        "twice",
        "replay",
        "netmon",
        "--input",
        "in.csv",
        "{at}/in.csv",
        in__csv=CSV,
    ),
    refused(
        "an input of a stream of nobody",
        "nobody",
        "replay",
        "netmon",
        "--input",
        "nobody=in.csv",
        in__csv=CSV,
    ),
    refused(
        "a bucket of nothing",
        "out of range",
        "replay",
        "netmon",
        "--input",
        "in.csv",
        "--bucket",
        "0s",
        in__csv=CSV,
    ),
    refused(
        "a bucket with SQL",
        "is not one",
        "replay",
        "netmon",
        "--input",
        "in.csv",
        "--bucket",
        SQL,
        in__csv=CSV,
    ),
    refused(
        "a report that is a folder",
        "is a folder",
        "replay",
        "netmon",
        "--input",
        "in.csv",
        "--report",
        "{at}",
        in__csv=CSV,
    ),
    refused(
        "a report below a file",
        "folder",
        "replay",
        "netmon",
        "--input",
        "in.csv",
        "--report",
        "in.csv/x",
        in__csv=CSV,
    ),
    refused(
        "to be kept below a file",
        "folder",
        "replay",
        "netmon",
        "--input",
        "in.csv",
        "--keep",
        "in.csv/x",
        in__csv=CSV,
    ),
    refused(
        "to be kept where a file is",
        "not a folder",
        "replay",
        "netmon",
        "--input",
        "in.csv",
        "--keep",
        "in.csv",
        in__csv=CSV,
    ),
    refused(
        "contracts that are not there", "no folder", "apply", "--contracts", "none", "--explain"
    ),
    refused("contracts with escapes", "no folder", "apply", "--contracts", ESCAPES, "--explain"),
    refused(
        "contracts that are a file",
        "no folder",
        "apply",
        "--contracts",
        "file",
        "--explain",
        file=b"x",
    ),
    refused(
        "generated where a file is", "folder|file", "generate", "file", "--records", "1", file=b"x"
    ),
)

HOMES = (
    home("nothing", b""),
    home("no JSON", b"{oops"),
    home("a list", b"[]"),
    home("a word", b'"alpha"'),
    home("no participants", b"{}"),
    home("participants as a list", homes(participants=["alpha"])),
    home("participants as null", homes(participants=None)),
    home("bytes that are no text", b'{"participants": {"\xff": "x"}}'),
    home("a hundred thousand lists deep", b"[" * 100_000),
    home("a number of 10,000 digits", b'{"participants": ' + b"9" * 10_000 + b"}"),
    home("a participant that climbs", homes(participants={"../../x": "medusa_x"})),
    home("a participant with SQL", homes(participants={SQL: "medusa_x"})),
    home("a participant with escapes", homes(participants={ESCAPES: "medusa_x"})),
    home("a database with SQL", homes(participants={"alpha": SQL})),
    home("a database of another program", homes(participants={"alpha": "template1?x=y"})),
    home("a database that is a number", homes(participants={"alpha": 12})),
    home(
        "a storage root with NUL",
        homes(participants={"alpha": "medusa_x"}, storage={"alpha": "a\0b"}),
    ),
    home("a storage root as a list", homes(participants={"alpha": "medusa_x"}, storage=["x"])),
)

CATALOGS = (
    catalog("nobody listens", "postgresql://u:secretword@127.0.0.1:1/d", "cannot|refused|reach"),
    catalog(
        "a host of nobody", "postgresql://u:secretword@nobody.invalid:5432/d", "cannot|host|reach"
    ),
    catalog(
        "a socket folder of nobody",
        "postgresql://u:secretword@/d?host=/nonexistent",
        "cannot|reach|socket",
    ),
    catalog(
        "an option of nobody",
        "postgresql://u:secretword@127.0.0.1:1/d?evil=1",
        "MEDUSA_CATALOG_URL|option|cannot",
        2,
    ),
    catalog(
        "a bracket that is open", "postgresql://u:secretword@[::1/d", "MEDUSA_CATALOG_URL|URL", 2
    ),
    catalog(
        "escapes in the host",
        f"postgresql://u:secretword@{ESCAPES.strip()}/d",
        "MEDUSA_CATALOG_URL|cannot",
    ),
)

OPEN_HOME = (
    refused("a stream of nobody", "'src'", "read", "scr"),
    refused("a stream with SQL", "no stream", "read", SQL),
    refused("a stream with escapes", "no stream", "read", ESCAPES),
    refused("a stream with markup", "no stream", "read", MARKUP),
    refused("a stream that climbs", "no stream", "read", "../../etc/passwd"),
    refused("a stream of 100,000 letters", "no stream", "read", "a" * 100_000),
    refused("a stream that is half a surrogate", "no stream", "read", "\udcff"),
    refused("a trim of SQL", "no stream", "trim", SQL, "--keep", "1d", "--explain"),
    refused("a trim of escapes", "no stream", "trim", ESCAPES, "--keep", "1d", "--explain"),
    refused(
        "an export to nowhere",
        "cannot be written",
        "quarantine",
        "export",
        "src",
        "{at}/none/x",
        code=4,
    ),
    refused("an export of SQL", "no stream", "quarantine", "export", SQL, "{at}/x"),
    refused(
        "repairs that are no JSON",
        "line 1 is no JSON object",
        "quarantine",
        "retry",
        "src",
        "file",
        file=b"oops",
    ),
    refused(
        "repairs that are no text",
        "no number|no JSON",
        "quarantine",
        "retry",
        "src",
        "file",
        file=b'{"quarantine": "\xff", "record": {}}',
    ),
    refused(
        "repairs nested deep",
        "nested deeper",
        "quarantine",
        "retry",
        "src",
        "file",
        file=b"[" * 100_000,
    ),
    refused(
        "repairs with a key twice",
        "has no record|no number",
        "quarantine",
        "retry",
        "src",
        "file",
        file=b'{"quarantine": 999999, "quarantine": 999998, "record": {}}',
    ),
)
