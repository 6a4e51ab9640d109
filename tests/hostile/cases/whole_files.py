"""Whole files: headers, archives, Parquet, JSON lines, Zeek logs, and what is none of them."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from medusa_core.network import Source
from tests.hostile.cases.shapes import ESCAPES, MARKUP, FileCase
from tests.hostile.cases.text_files import GOOD, HEADER

ROW = {"ts_us": 1_700_000_000_000_000, "host": "a", "port": 1, "size": 1.5}
CSV = HEADER + GOOD * 3


def parquet(**columns: pa.Array) -> bytes:
    """A Parquet file of the columns; those not given are as in a good row."""
    given = {
        "ts_us": pa.array([ROW["ts_us"]] * 2),
        "host": pa.array(["a", "b"]),
        "port": pa.array([1, 2], pa.int32()),
        "size": pa.array([1.5, 2.5]),
        **columns,
    }
    out = io.BytesIO()
    pq.write_table(pa.table(given), out)
    return out.getvalue()


def renamed(name: str) -> bytes:
    """A Parquet file with a column of that name beside the declared ones."""
    return parquet(**{name: pa.array([1, 2])})


def zip_of() -> bytes:
    """A ZIP archive with a path that climbs."""
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../../broken_out", CSV)
    return out.getvalue()


def tar_of(*, zipped: bool) -> bytes:
    """A tar archive with a path that climbs."""
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz" if zipped else "w") as archive:
        member = tarfile.TarInfo("../../broken_out")
        member.size = len(CSV)
        archive.addfile(member, io.BytesIO(CSV))
    return out.getvalue()


def bomb() -> bytes:
    """64 MiB of zeros in one line, as 64 KiB."""
    packer = zlib.compressobj(9, wbits=31)
    start = packer.compress(HEADER + GOOD)
    zeros = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64))
    return start + zeros + packer.compress(b"\n" + GOOD) + packer.flush()


def whole(name: str, content: bytes | Callable[[], bytes], refused: str) -> FileCase:
    """A file that is refused."""
    return FileCase(name=name, content=content, refused=refused)


HEADERS = (
    whole("an empty file", b"", "is empty|holds nothing|no header"),
    whole("only line ends", b"\n\r\n\n", "empty|header|column"),
    whole("a byte order mark alone", b"\xef\xbb\xbf", "empty|header|column"),
    FileCase(name="a header alone", content=HEADER),
    whole("a column missing", b"ts_us,host,port\n1,a,1\n", "size"),
    whole("a column twice", b"ts_us,host,port,size,size\n1,a,1,1,1\n", "size"),
    whole("no delimiter", b"ts_us\n1\n", "host|column"),
    whole("a header of 2 MiB", b"a," * (1 << 20) + b"\n1\n", "header|column|MiB"),
    whole("a header with escapes", ESCAPES.encode() + b",b\n1,2\n", "ts_us|column|header"),
    whole("a header with markup", MARKUP.encode() + b",b\n1,2\n", "ts_us|column|header"),
    whole("a header that is no text", b"\xff\xfe\xfd,\x80\n1,2\n", "UTF-8|UTF-16|header|column"),
    whole("UTF-16", CSV.decode().encode("utf-16"), "UTF-16|UTF-8|header|column|text"),
    whole("UTF-32", CSV.decode().encode("utf-32"), "UTF|header|column|text"),
    FileCase(
        name="extra columns named as ours",
        content=b"_stime,_bucket,ts_us,host,port,size\n1,2," + GOOD,
        landed=1,
    ),
)

ARCHIVES = (
    whole("a ZIP archive", zip_of(), "ZIP|zip|archive|text|unpack"),
    whole("a tar archive", tar_of(zipped=False), "tar|archive|text|header|column|NUL"),
    whole("a tar archive in gzip", tar_of(zipped=True), "tar|archive|text|header|column|NUL"),
    whole("gzip in gzip", gzip.compress(gzip.compress(CSV, mtime=0)), "gzip|header|column|text"),
    whole("gzip that breaks off", gzip.compress(CSV * 50)[:-20], "breaks off|gzip|damaged"),
    whole("gzip with a wrong sum", gzip.compress(CSV)[:-8] + bytes(8), "gzip|damaged|check"),
    whole(
        "gzip with rubbish behind", gzip.compress(CSV) + b"rubbish", "gzip|rubbish|damaged|behind"
    ),
    whole("gzip's first bytes alone", b"\x1f\x8b\x08", "gzip|breaks off|damaged"),
    whole("gzip of nothing", gzip.compress(b""), "empty|nothing|header"),
    FileCase(name="two gzip members", content=gzip.compress(CSV) + gzip.compress(GOOD), landed=4),
    whole("a gzip bomb", bomb, "line of more than 16 MiB"),
    whole("bzip2", b"BZh91AY&SY" + bytes(40), "header|text|bzip2|column|compress"),
    whole("zstd", b"\x28\xb5\x2f\xfd" + bytes(40), "header|text|zstd|column|compress"),
    whole("xz", b"\xfd7zXZ\x00" + bytes(40), "header|text|xz|column|compress"),
    whole("a PNG", b"\x89PNG\r\n\x1a\n" + bytes(64), "header|text|column"),
    whole("an ELF program", b"\x7fELF" + bytes(256), "header|text|column"),
    whole("a PDF", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "header|text|column"),
    whole("a pickle", b"cos\nsystem\n(S'touch broken_out'\ntR.", "header|column"),
    whole("HTML", b"<!DOCTYPE html><html><script>alert(1)</script>", "header|column"),
)

PARQUET = (
    FileCase(name="Parquet: good", content=parquet(), landed=2),
    whole("Parquet: its magic alone", b"PAR1", "Parquet|damaged"),
    whole("Parquet: magic twice", b"PAR1PAR1", "Parquet|damaged"),
    whole("Parquet: cut short", parquet()[:-30], "Parquet|damaged"),
    whole(
        "Parquet: a footer of 2 GiB",
        b"PAR1" + bytes(64) + b"\xff\xff\xff\x7fPAR1",
        "Parquet|damaged",
    ),
    whole(
        "Parquet: a footer of noise",
        parquet()[:-60] + bytes(52) + parquet()[-8:],
        "Parquet|damaged",
    ),
    whole(
        "Parquet: noise in the pages",
        parquet()[:4] + bytes(200) + parquet()[204:],
        "Parquet|damaged|read",
    ),
    whole("Parquet: a list for a number", parquet(port=pa.array([[1], [2]])), "port"),
    whole("Parquet: a struct for text", parquet(host=pa.array([{"a": 1}] * 2)), "host"),
    whole(
        "Parquet: binary for a double", parquet(size=pa.array([b"a", b"b"], pa.binary(1))), "size"
    ),
    FileCase(
        name="Parquet: a value beyond int",
        content=parquet(port=pa.array([1, 2**40])),
        landed=1,
        quarantined=((2, "port", "out of range"),),
    ),
    FileCase(
        name="Parquet: no time",
        content=parquet(ts_us=pa.array([1, None])),
        landed=1,
        quarantined=((2, "ts_us", "no time"),),
    ),
    FileCase(
        name="Parquet: a time of no year",
        content=parquet(ts_us=pa.array([1, 2**62])),
        landed=1,
        quarantined=((2, "ts_us", "years 1 to 9999"),),
    ),
    FileCase(
        name="Parquet: NUL in text",
        content=parquet(host=pa.array(["a", "b\0"])),
        landed=1,
        quarantined=((2, "host", "NUL"),),
    ),
    FileCase(
        name="Parquet: bytes that are no text",
        landed=1,
        quarantined=((2, "host", "UTF-8"),),
        content=parquet(host=pa.array([b"a", b"\xff"])),
    ),
    FileCase(
        name="Parquet: text that is no number",
        landed=1,
        quarantined=((2, "port", "no whole number"),),
        content=parquet(port=pa.array(["1", "1; DROP TABLE x"])),
    ),
    FileCase(name="Parquet: a name with markup", content=renamed(MARKUP), landed=2),
    FileCase(name="Parquet: a name with escapes", content=renamed(ESCAPES), landed=2),
    FileCase(
        name="Parquet: NaN for a whole number",
        landed=1,
        quarantined=((2, "port", "no whole number"),),
        content=parquet(port=pa.array([1.0, float("nan")])),
    ),
)

DECLARED = Source(name="events", columns={"at": "binary"}, time="at")
DECLARATIONS = (
    FileCase(
        name="a time that is declared as bytes",
        content=b"at\n1\n",
        source=DECLARED,
        refused="binary",
    ),
)
