"""The settings of a bucket that keeps the files of a storage root.

They are stored in the folder of the root, so that every process that opens the root finds them.
Keys are not: they are read from the environment or from a file of mode 0600 when a client is made.
"""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
from configparser import ConfigParser
from configparser import Error as WrongFile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from medusa_core.errors import WRONG_FORM, Refused
from pipelines.base.files import write_atomically
from pipelines.base.secret_files import SecretFile
from pipelines.base.settings import OBJECT_SETTINGS, environment

SETTINGS = OBJECT_SETTINGS
SCHEME = "s3://"
CACHE_BYTES = 10 << 30
LOOPBACK = ("127.0.0.1", "::1", "localhost")
REGION = "us-east-1"
CREDENTIALS_LENGTH_MAX = 4_096

_ADDRESS = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.=-]+)*")
_REGION = re.compile(r"[a-z0-9-]{1,32}")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ORIGIN = re.compile(
    rf"(https?)://({_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]{{2,45}}\])(?::([1-9][0-9]{{0,4}}))?/?"
)
_USUAL_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of an account; not shown."""

    access: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSettings:
    """Where objects are kept: `address` is s3://bucket or s3://bucket/prefix.

    `endpoint` is the URL of the server, None that of AWS in `region`. `credentials` is the path of
    the file with the keys, None if they are in the environment. `ca_file` is that of a file (PEM)
    with the authorities of the server, None for public ones. `cache_bytes` is the size that the
    copies in the folder have at most, about. With `redirects`, a partner that may read a file and
    names this server is redirected to the object.
    """

    address: str
    endpoint: str | None = None
    region: str = REGION
    credentials: str | None = None
    ca_file: str | None = None
    cache_bytes: int = CACHE_BYTES
    redirects: bool = False

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address) or "/." in self.address:
            raise Refused(f"{self.address!r} is not s3://bucket or s3://bucket/prefix")
        if not _REGION.fullmatch(self.region):
            raise Refused(f"{self.region!r} is not the name of a region, such as {REGION}")
        if self.endpoint is not None:
            origin_of(self.endpoint)
        if self.credentials is not None and not Path(self.credentials).is_absolute():
            raise Refused(f"{self.credentials!r} is not the absolute path of a file with the keys")
        if self.ca_file is not None and not Path(self.ca_file).is_absolute():
            raise Refused(f"{self.ca_file!r} is not the absolute path of a file in PEM form")
        if self.cache_bytes < 1:
            raise Refused(f"{self.cache_bytes} is not a number of bytes above 0")

    @property
    def place(self) -> str:
        """The bucket and the prefix, divided by slashes."""
        return self.address.removeprefix(SCHEME)

    @property
    def url(self) -> str:
        """The URL of the server, see `origin_of`."""
        return origin_of(self.endpoint or f"https://s3.{self.region}.amazonaws.com")

    @property
    def location(self) -> str:
        """The URL below which the objects are: server, bucket and prefix."""
        return f"{self.url}/{self.place}"

    def is_stored_in(self, root: Path) -> bool:
        """Whether the folder of a root has these settings."""
        try:
            return (root / SETTINGS).read_text() == self._text()
        except (OSError, UnicodeError):
            return False

    def write(self, root: Path) -> None:
        """Store the settings in the folder of a root, before a file of it is opened."""
        if not self.is_stored_in(root):
            write_atomically(root / SETTINGS, self._text(), mode=0o600)

    def _text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    def keys(self) -> Keys:
        """The keys; Refused if there are none, or if others could have read their file."""
        if self.credentials is not None:
            return _keys_in(Path(self.credentials))
        given = environment()
        access, secret = given.get("AWS_ACCESS_KEY_ID"), given.get("AWS_SECRET_ACCESS_KEY")
        if not access or not secret:
            raise Refused(
                f"there are no keys for {self.address}: set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or write storage_credentials in the participant's file"
            )
        return Keys(access, secret, given.get("AWS_SESSION_TOKEN") or None)

    def check_ca_file(self) -> None:
        """Refused if the file with the authorities of the server cannot be read, or has none."""
        if self.ca_file is None:
            return
        try:
            ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            reason = "no certificates" if isinstance(error, ssl.SSLError) else error.strerror
            raise Refused(
                f"the file of authorities {self.ca_file} cannot be read ({reason}): "
                "mend storage_ca_file in the participant's file"
            ) from None


def read_settings(root: Path) -> ObjectSettings | None:
    """The settings of a root's bucket; None if its files are kept in its folder."""
    path = root / SETTINGS
    try:
        return ObjectSettings(**json.loads(path.read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, Refused, *WRONG_FORM) as error:
        raise Refused(
            f"{path} cannot be read as Medusa wrote it: run medusa apply, which writes it again"
        ) from error


def origin_of(endpoint: str) -> str:
    """The URL of a server in the one form in which URLs are compared and signed.

    It has no slash at its end and not the usual port, which clients leave out of the header that is
    signed. Refused unless a text is such a URL, with TLS if it is not this machine.
    """
    found = _ORIGIN.fullmatch(endpoint)
    if found is None or int(found[3] or 1) > 65_535 or not _is_host(found[2]):
        raise Refused(
            f"{endpoint!r} is not https://HOST or https://HOST:PORT, with a host in lower case"
        )
    scheme, host, port = found.groups()
    if scheme == "http" and host.strip("[]") not in LOOPBACK:
        raise Refused(f"{endpoint!r} is without TLS: write https://, http:// is for this machine")
    is_usual = port is None or port == _USUAL_PORTS[scheme]
    return f"{scheme}://{host}" if is_usual else f"{scheme}://{host}:{port}"


def _is_host(host: str) -> bool:
    """Whether a host in brackets is an address of IPv6; others are."""
    try:
        return not host.startswith("[") or bool(ipaddress.IPv6Address(host.strip("[]")))
    except ValueError:
        return False


def _keys_in(path: Path) -> Keys:
    """The keys in a file of the form of ~/.aws/credentials, section [default]."""
    try:
        parser = ConfigParser(interpolation=None)
        parser.read_string(SecretFile(path, ()).read(CREDENTIALS_LENGTH_MAX))
        found = parser["default"]
        access, secret = found["aws_access_key_id"], found["aws_secret_access_key"]
        return Keys(access, secret, found.get("aws_session_token") or None)
    except FileNotFoundError:
        raise Refused(f"there is no file {path} with the keys of the object store") from None
    except (KeyError, WrongFile):
        # The error would repeat a line of the file.
        raise Refused(
            f"{path} is not a file of keys: write [default], aws_access_key_id = … and "
            "aws_secret_access_key = …"
        ) from None
