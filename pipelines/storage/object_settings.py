"""The settings of a bucket that keeps the files of a storage root.

They are stored in the folder of the root, so that every process that opens the root finds them.
Keys are not: they are read from the environment or from a file of mode 0600 when a client is made.
"""

from __future__ import annotations

import json
import re
from configparser import ConfigParser
from configparser import Error as WrongFile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from medusa_core.errors import WRONG_FORM, Refused
from pipelines.base.files import write_atomically
from pipelines.base.secret_files import SecretFile
from pipelines.base.settings import environment

SETTINGS = "object-store.json"
SCHEME = "s3://"
CACHE_BYTES = 10 << 30
LOOPBACK = ("127.0.0.1", "::1", "localhost")
REGION = "us-east-1"
CREDENTIALS_LENGTH_MAX = 4_096

_ADDRESS = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.=-]+)*")
_REGION = re.compile(r"[a-z0-9-]{1,32}")


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
    the file with the keys, None if they are in the environment. `cache_bytes` is the size that the
    copies in the folder have at most, about. With `redirects`, a partner that may read a file and
    names this server is redirected to the object.
    """

    address: str
    endpoint: str | None = None
    region: str = REGION
    credentials: str | None = None
    cache_bytes: int = CACHE_BYTES
    redirects: bool = False

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address) or "/." in self.address:
            raise Refused(f"{self.address!r} is not s3://bucket or s3://bucket/prefix")
        if not _REGION.fullmatch(self.region):
            raise Refused(f"{self.region!r} is not the name of a region, such as {REGION}")
        if self.endpoint is not None:
            check_endpoint(self.endpoint)
        if self.credentials is not None and not Path(self.credentials).is_absolute():
            raise Refused(f"{self.credentials!r} is not the absolute path of a file with the keys")
        if self.cache_bytes < 1:
            raise Refused(f"{self.cache_bytes} is not a number of bytes above 0")

    @property
    def place(self) -> str:
        """The bucket and the prefix, divided by slashes."""
        return self.address.removeprefix(SCHEME)

    @property
    def url(self) -> str:
        """The URL of the server, without a slash at its end."""
        url = (self.endpoint or f"https://s3.{self.region}.amazonaws.com").rstrip("/")
        # Clients leave out the usual port in the header that is signed.
        return url.removesuffix(":443" if url.startswith("https:") else ":80")

    def write(self, root: Path) -> None:
        """Store the settings in the folder of a root, before a file of it is opened."""
        text = json.dumps(asdict(self), indent=1) + "\n"
        path = root / SETTINGS
        if not path.exists() or path.read_text() != text:
            write_atomically(path, text, mode=0o600)

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


def check_endpoint(endpoint: str) -> None:
    """Refused unless a text is the URL of a server, with TLS if it is not this machine."""
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        raise Refused(
            f"{endpoint!r} is not a URL: write https://HOST or https://HOST:PORT"
        ) from None
    is_bare = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
    if not parts.hostname or not is_bare or port == 0 or parts.scheme not in ("https", "http"):
        raise Refused(f"{endpoint!r} is not https://HOST or https://HOST:PORT")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise Refused(f"{endpoint!r} is without TLS: write https://, http:// is for this machine")


def _keys_in(path: Path) -> Keys:
    """The keys in a file of the form of ~/.aws/credentials, section [default]."""
    try:
        parser = ConfigParser(interpolation=None)
        parser.read_string(SecretFile(path, ()).read(CREDENTIALS_LENGTH_MAX))
        found = parser["default"]
        access, secret = found["aws_access_key_id"], found["aws_secret_access_key"]
        return Keys(access, secret, found.get("aws_session_token"))
    except FileNotFoundError:
        raise Refused(f"there is no file {path} with the keys of the object store") from None
    except (KeyError, WrongFile):
        # The error would repeat a line of the file.
        raise Refused(
            f"{path} is not a file of keys: write [default], aws_access_key_id = … and "
            "aws_secret_access_key = …"
        ) from None
