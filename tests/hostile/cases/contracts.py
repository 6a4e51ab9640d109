"""Contracts: no YAML, too much of it, what cannot be, and what leads elsewhere."""

from __future__ import annotations

from tests.hostile.cases.shapes import ESCAPES, MARKUP, SHELL, SQL, ContractCase

ALPHA = "participants/alpha.yaml"


def stream(name: str, text: str | bytes, refused: str) -> ContractCase:
    """A stream's contract."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return ContractCase(name=name, content=content, refused=refused)


def source(name: str, text: str, refused: str) -> ContractCase:
    """A stream's contract with these lines below `source:`."""
    lines = "".join(f"  {line}\n" for line in text.splitlines())
    return stream(f"source: {name}", f"stream: connections_a\nsource:\n{lines}", refused)


def participant(name: str, text: str, refused: str) -> ContractCase:
    """A participant's contract."""
    return ContractCase(
        name=f"participant: {name}", content=text.encode(), refused=refused, file=ALPHA
    )


def run(name: str, text: str, refused: str) -> ContractCase:
    """A participant's contract with one item of `runs:`."""
    return participant(name, f"participant: alpha\nruns:\n  - {{{text}}}\n", refused)


def quoted(text: str) -> str:
    """The text in YAML's double quotes, whatever it holds."""
    return '"' + "".join(f"\\U{ord(c):08x}" for c in text) + '"'


YAML = (
    stream("nothing", "", "is empty"),
    stream("a comment alone", "# nothing\n", "is empty|no contract"),
    stream("a list", "- a\n- b\n", "no contract"),
    stream("a word", "oops\n", "no contract"),
    stream("no name", "source: {kind: generate}\n", "field stream is missing"),
    stream("another name", "stream: other\n", "but the file is"),
    stream("not YAML", "stream: [\n", "not YAML"),
    stream("a tab as indentation", "stream:\n\ta: b\n", "not YAML"),
    stream("a key twice", "stream: connections_a\nstream: connections_a\n", "again"),
    stream("an alias", "stream: connections_a\nsource: *other\n", "alias"),
    stream("an anchor", "stream: &a connections_a\n", "anchor"),
    stream(
        "a billion laughs",
        "stream: connections_a\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
        "anchor",
    ),
    stream("a merge", "stream: connections_a\n<<: {a: b}\n", "<<"),
    stream(
        "an object of Python",
        "stream: !!python/object/apply:os.system ['touch broken_out']\n",
        "tag",
    ),
    stream("a module of Python", "stream: !!python/module:os\n", "tag"),
    stream("a tag of one's own", "stream: !x connections_a\n", "tag"),
    stream("two documents", "stream: connections_a\n---\nstream: b\n", "second document"),
    stream("a hundred lists deep", "stream: " + "[" * 100 + "]" * 100, "nested"),
    stream("ten thousand lists deep", "stream: " + "[" * 10_000, "nested|not YAML"),
    stream("ten thousand mappings deep", "stream: " + "{a: " * 10_000, "nested|not YAML"),
    stream("65 KiB", "stream: connections_a\n#" + "x" * 65 * 1_024, "longer than 64 KiB"),
    ContractCase(
        name="64 MiB", content=lambda: b"a: b\n" * (13 << 20), refused="longer than 64 KiB"
    ),
    stream(
        "a key of 60 KiB",
        "stream: connections_a\n" + "k" * 60_000 + ": 1\n",
        "unknown|field|not YAML|there is no",
    ),
    stream("bytes that are no text", b"stream: \xff\xfe\n", "not UTF-8"),
    stream("UTF-16", "stream: connections_a\n".encode("utf-16"), "not UTF-8"),
    stream("half a surrogate", "stream: \ud800\n", "not UTF-8"),
    stream("NUL", "stream: a\0b\n", "character #x0000"),
    stream("escapes", f"stream: {ESCAPES}\n", "character #x"),
    stream("escapes in quotes", f"stream: {quoted(ESCAPES)}\n", "character #x"),
    stream("NUL in quotes", 'stream: "a\\0"\n', "character #x"),
    stream("right-to-left text", "stream: \u202ea\n", "character #x"),
    stream("a mapping as key", "? {a: b}\n: c\n", "no word"),
    stream("a number as name", "stream: 12\n", "name of a stream"),
    stream("null as name", "stream: null\n", "not a name|text|empty"),
    stream("true as name", "stream: true\n", "name of a stream"),
    stream("SQL as name", f"stream: {quoted(SQL)}\n", "not a name"),
    stream("a path as name", "stream: ../../etc/passwd\n", "not a name"),
    stream("markup as name", f"stream: {quoted(MARKUP)}\n", "not a name"),
    stream("an unknown field", "stream: connections_a\nsauce: {}\n", "sauce.*source"),
    stream("a field with markup", f"stream: connections_a\n{quoted(MARKUP)}: 1\n", "script"),
    stream("retention of nothing", "stream: connections_a\nretention: 0s\n", "out of range"),
    stream("retention for ever", "stream: connections_a\nretention: 999999999d\n", "out of range"),
    stream(
        "retention in microseconds", "stream: connections_a\nretention: 1500us\n", "milliseconds"
    ),
    stream("retention as a list", "stream: connections_a\nretention: [1s]\n", "duration|text|one"),
)

ALL = "sources: [connections_a, connections_b, connections_c], fragments: [main]"

SOURCES = (
    source("of no kind", "seed: 1", "kind"),
    source("of an unknown kind", "kind: sql", "kind"),
    source("a kind with markup", f"kind: {quoted(MARKUP)}", "kind"),
    source("a seed of text", "kind: generate\nseed: many", "seed"),
    source("a rate below zero", "kind: generate\nrate_per_s: -1", "rate_per_s"),
    source("a rate of 1e17", "kind: generate\nrate_per_s: 100000000000000000", "rate_per_s"),
    source("an unknown field", "kind: generate\nsede: 1", "sede"),
    source("a folder that climbs", "kind: directory\npath: ../../../etc", "leads out"),
    source("a folder of somebody", "kind: directory\npath: ~root/x", "absolute path"),
    source("a folder as a list", "kind: directory\npath: [a]", "path"),
    source("no folder", "kind: directory", "path"),
    source("a format of nobody", "kind: directory\npath: in\nformat: pickle", "format"),
    source("no files", "kind: replay\npaths: []", "paths"),
    source("files that climb", "kind: replay\npaths: [../../../etc/passwd]", "leads out"),
    source("a speed of nothing", "kind: replay\npaths: [a]\nspeed: 0", "speed"),
    source(
        "a password in clear",
        "kind: spark\nformat: kafka\noptions: {password: secretword}\ncolumns: {}",
        "password|secret|\\$\\{|environment",
    ),
    source("a format that is SQL", 'kind: spark\nformat: "a; DROP TABLE x"\ncolumns: {}', "format"),
    source("a format that is a path", "kind: spark\nformat: ../../x\ncolumns: {}", "format"),
    source("an option as a list", "kind: spark\nformat: rate\noptions: {a: [1]}", "option"),
    source("disorder in words", "kind: generate\ndisorder: some", "disorder"),
    source("a jump below zero", "kind: generate\nmax_jump: -1s", "max_jump"),
)

PARTICIPANTS = (
    participant("no name", "runs: []\n", "participant is missing"),
    participant("capitals", "participant: Alpha\n", "not a name"),
    participant("runs as text", "participant: alpha\nruns: all\n", "list"),
    participant("runs as numbers", "participant: alpha\nruns: [1]\n", "mapping|NAME|fields"),
    run("a network of nobody", "network: netmonn, sources: [a]", "netmon"),
    run("a network that climbs", "network: ../../x.py, sources: [a]", "leads out"),
    run("a network of somebody's home", "network: ~root/x.py, sources: [a]", "absolute path"),
    run("a network that is not there", "network: none.py, sources: [a]", "no file"),
    run(
        "a network that is a shell command", f"network: {quoted(SHELL)}, sources: [a]", "not a name"
    ),
    run("nothing to run", "network: netmon3", "runs nothing"),
    run("a source with SQL", f"network: netmon3, sources: [{quoted(SQL)}]", "not a name"),
    run("a source of nobody", "network: netmon3, sources: [conections_a]", "connections_a"),
    run(
        "a fragment of nobody",
        "network: netmon3, " + ALL.replace("main", "tail"),
        "fragment",
    ),
    run(
        "a bucket of nothing",
        "network: netmon3, bucket: 0s, sources: [connections_a]",
        "out of range",
    ),
    run("a bucket that does not fit", f"network: netmon3, bucket: -5s, {ALL}", "is not one"),
    participant(
        "storage that climbs",
        f"participant: alpha\nstorage: ../../x\nruns: [{{network: netmon3, {ALL}}}]\n",
        "leads|out|storage",
    ),
    participant(
        "storage that is no path",
        f"participant: alpha\nstorage: [1]\nruns: [{{network: netmon3, {ALL}}}]\n",
        "text|storage",
    ),
)
