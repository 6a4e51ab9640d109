"""The certificate of an exchange server: made by its home, and known to partners by its key.

A partner that pins a server trusts a certificate with that key within its time: it may be renewed,
be signed by nobody else, and name any host. The certificate of a public authority needs no pin.
"""

from __future__ import annotations

import datetime as dt
import ssl
from contextlib import suppress
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.files import write_atomically

VALID_DAYS, RENEWAL_DAYS = 3_650, 30
SKEW_DAYS = 1
"""How far a partner's clock may be behind when it first sees the certificate."""


def server_context(certificate: Path, key: Path | None = None) -> ssl.SSLContext:
    """TLS 1.3 with the certificate in a PEM file; without `key` that file holds its key, too.

    Raises Refused if the files cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        # An empty password, else OpenSSL would request one at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        # OpenSSL's errors are OSErrors whose text is of the library's inside.
        is_read = isinstance(error, ssl.SSLError | ValueError)
        reason = "its content is wrong" if is_read else getattr(error, "strerror", "")
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            reason = "the key is that of another one"
        raise Refused(
            f"certificate {certificate} cannot be used ({reason}): give the PEM files of a "
            "certificate and of its key, without a password"
        ) from error
    return context


class ServerCertificate:
    """The certificate that a server presents; `context` presents another one when its file changes.

    `key` None: the file holds the key, too. Raises Refused if the files cannot be used.
    """

    def __init__(self, path: Path, key: Path | None = None) -> None:
        self._path, self._key = path, key
        self._seen = self._changed_at()
        self.context = self._present = server_context(path, key)
        self.context.sni_callback = self._choose
        self.pin = pin_of_file(path)

    def refresh(self) -> None:
        """Read the files again if they have changed.

        The present certificate stays if they cannot be used; then Refused is raised, once.
        """
        seen = self._changed_at()
        if seen == self._seen:
            return
        self._seen = seen
        self._present = server_context(self._path, self._key)
        self.pin = pin_of_file(self._path)

    def _choose(self, handshake: ssl.SSLObject, host: str | None, context: ssl.SSLContext) -> None:
        """Present the certificate of now in a handshake, whatever host the client names.

        A context that is loaded again is for a moment without a certificate, and handshakes which
        begin meanwhile fail: it stays as it was made, and each handshake takes the present one.
        """
        handshake.context = self._present

    def _changed_at(self) -> tuple[int, ...]:
        """When the files changed last; a file that is being replaced may be missing."""
        return tuple(_changed_at(path) for path in (self._path, self._key) if path is not None)


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def replace_certificate(path: Path, participant: Participant) -> Path:
    """Put a certificate with another key in the place of the participant's own, for the same host.

    Raises Unavailable if it cannot be written.
    """
    host = None
    with suppress(Refused):  # a damaged one is replaced, too
        if (made := _made_before(path)) is not None:
            host = _host_of(made[1])
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        write_atomically(path, _signed(key, participant, host), mode=0o600)
    except OSError as error:
        raise _not_written(path, error) from error
    return path


def make_certificate(path: Path, participant: Participant, host: str | None = None) -> Path:
    """The participant's own certificate with its key, in one file, for `host` if that is given.

    It is made if there is none, and renewed with the same key before its end and where it names
    another host. Raises Unavailable if it cannot be written, Refused if the file holds something
    else.
    """
    made = _made_before(path)
    if made is not None:
        key, certificate = made
        is_lasting = certificate.not_valid_after_utc > clock.now_utc() + dt.timedelta(
            days=RENEWAL_DAYS
        )
        host = host or _host_of(certificate)
        if is_lasting and host == _host_of(certificate):
            return path
    else:
        key = ec.generate_private_key(ec.SECP256R1())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Of two that are made at once the first one stays.
        with suppress(FileExistsError):
            write_atomically(
                path, _signed(key, participant, host), mode=0o600, replaces=made is not None
            )
    except OSError as error:
        raise _not_written(path, error) from error
    return path


def _not_written(path: Path, error: OSError) -> Unavailable:
    return Unavailable(f"certificate {path} cannot be written ({error.strerror}): mend its folder")


def _made_before(path: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None:
    try:
        content = path.read_bytes()
        key = serialization.load_pem_private_key(content, None)
        certificate = x509.load_pem_x509_certificate(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Refused(
            f"certificate {path} is not as Medusa wrote it: restore it from a backup, or remove it "
            "and give partners the new key"
        )
    return key, certificate


def _names_of(host: str) -> x509.SubjectAlternativeName:
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(host)])


def _host_of(certificate: x509.Certificate) -> str | None:
    """The host that a certificate names, for clients that do not know its pin."""
    try:
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    hosts = [*named.get_values_for_type(x509.DNSName)]
    hosts += map(str, named.get_values_for_type(x509.IPAddress))
    return next(iter(hosts), None)


def _signed(
    key: ec.EllipticCurvePrivateKey, participant: Participant, host: str | None = None
) -> bytes:
    """A new certificate with its key, as PEM."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, participant)])
    now = clock.now_utc()
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=SKEW_DAYS))
        .not_valid_after(now + dt.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if host is not None:
        builder = builder.add_extension(_names_of(host), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


def pin_of(certificate: bytes) -> str:
    """The SHA-256 of a certificate's key, in hexadecimal digits; the certificate is DER.

    Raises Refused if it cannot be read.
    """
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except ValueError:
        raise Refused("the server's certificate cannot be read: call its operator") from None
    spki = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return sha256(spki).hexdigest()


def pin_of_file(path: Path) -> str:
    """The pin of the first certificate in a PEM file; Refused if it has no certificate."""
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        raise Refused(f"{path} holds no certificate: give another file") from None
    return pin_of(found.public_bytes(serialization.Encoding.DER))


def pinned_context(certificate: bytes) -> ssl.SSLContext:
    """TLS 1.3 that trusts one certificate (DER), whatever host it names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context


def public_context() -> ssl.SSLContext:
    """TLS 1.3 that trusts the public authorities of this machine."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
