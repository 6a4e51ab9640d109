"""The errors of Medusa, classified by what the caller should do next.

    MedusaError
    ├── CheckFailed      a check ran and found something wrong          exit code 1
    ├── Refused          the input is wrong: do not try again           exit code 2
    │   └── Expired      the requested buckets are trimmed: start over  exit code 2
    ├── Conflict         another was first: read and decide again       exit code 3
    ├── Unavailable      not reachable now: try later                   exit code 4
    ├── OutcomeUnknown   the reply was lost: check before acting        exit code 5
    └── Diverged         what must be equal is not: stop, call a person exit code 6

Every message is one sentence that names the file, line, field or row and says what to do.
"""

from __future__ import annotations

from typing import ClassVar

SENTENCE_LENGTH_MAX = 2_000

WRONG_FORM = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""The built-in errors that are raised when a document of another program has an unexpected form."""


class MedusaError(Exception):
    """Root of every error that Medusa raises on purpose."""

    exit_code: ClassVar[int] = 70

    def __str__(self) -> str:
        text = super().__str__()
        if not text:
            return (type(self).__doc__ or type(self).__name__).splitlines()[0]
        # It may repeat a name from anywhere, and be shown in a terminal or written to a log.
        safe = text
        if not text.isprintable():
            safe = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        if len(safe) <= SENTENCE_LENGTH_MAX:
            return safe
        half = SENTENCE_LENGTH_MAX // 2
        return f"{safe[:half]}…{safe[-half + 1 :]}"


class CheckFailed(MedusaError):
    """A check ran to its end and found something wrong."""

    exit_code = 1


class Refused(MedusaError):
    """The input is wrong; trying again will not help."""

    exit_code = 2


class Expired(Refused):
    """What a reader has not read yet is trimmed; it can only start again."""


class Conflict(MedusaError):
    """Somebody else was first; read again and decide again."""

    exit_code = 3


class Unavailable(MedusaError):
    """A part that is needed cannot be reached now; try later."""

    exit_code = 4


class OutcomeUnknown(MedusaError):
    """The reply was lost; look at the catalog before doing it again."""

    exit_code = 5


class Diverged(MedusaError):
    """What must be equal is not; nothing more becomes stable until a person has looked."""

    exit_code = 6
