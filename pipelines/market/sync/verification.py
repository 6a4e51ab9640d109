"""Verification of signatures: the keys with which each part of a message is checked.

An envelope, and a proposal, must be signed by the present key of its sender, or by one that was
succeeded a short time ago. Agreements and
statements may have been signed by any key that is known to have been that party's, so that they
outlive the key; only disowned keys are not accepted.
"""

from __future__ import annotations

from collections.abc import Mapping

from medusa_core.errors import Refused
from medusa_core.market.agreements import (
    DocumentEnvelope,
    NoticeEnvelope,
    ends_statement,
    holds_statement,
)
from medusa_core.market.documents import revision_of
from medusa_core.market.envelopes import Envelope, contract_bytes, statement_bytes
from medusa_core.market.terms import checked_revision
from medusa_core.names import Participant
from pipelines.catalog.agreement_store import KnownKeys, Signed
from pipelines.homes.signatures import is_signed

SIGNS = "signs "
"""So begins what is due of a contract that is to be signed anew, with another key."""

Keys = Mapping[Participant, KnownKeys]


def check_sender(envelope: Envelope, keys: Keys) -> None:
    """Refuse an envelope that is not signed by the key of its sender that counts."""
    known = keys.get(envelope.sender)
    if known is None or not known.counting:
        raise Refused(
            f"no key of {envelope.sender} is known here: if it is a partner, let the owner "
            "call medusa_api.learn_key"
        )
    if not any(
        is_signed(key, envelope.signature, envelope.bytes_to_sign) for key in known.counting
    ):
        raise Refused(
            f"its signature is not by the key of {envelope.sender} that is known here: it is "
            "forged or altered, or the key is another one"
        )


def verified_document(
    envelope: DocumentEnvelope, keys: Keys
) -> tuple[dict[Participant, Signed], Signed | None]:
    """The signatures that a document came with, and that of its provider's statement that it holds
    it, each with the key that it is by; Refused if one is by none that is known."""
    terms, revision = envelope.terms, revision_of(envelope.terms)
    is_agreed = set(envelope.signatures) == set(terms.parties)
    signatures = {
        party: _signed(party, signature, contract_bytes(revision), keys, is_past=is_agreed)
        for party, signature in envelope.signatures.items()
    }
    if None in signatures.values():
        party = next(party for party, signed in signatures.items() if signed is None)
        raise Refused(
            f"contract {terms.contract} is not signed by a key of {party} that is known here: if "
            "it had another one before, let the owner call medusa_api.learn_past_key"
        )
    confirmation = None
    if envelope.confirmation is not None:
        stated = statement_bytes(holds_statement(revision))
        confirmation = _signed(terms.provider, envelope.confirmation, stated, keys, is_past=True)
        if confirmation is None:
            raise Refused(f"{terms.provider} has not signed that it holds {terms.contract}")
    return {party: one for party, one in signatures.items() if one is not None}, confirmation


def verified_notice(envelope: NoticeEnvelope, keys: Keys) -> list[bytes]:
    """With which key each statement of a notice is signed; Refused if one is by none."""
    found = []
    for one in envelope.statements:
        stated = statement_bytes(ends_statement(envelope.contract, one.given_by, one.ends_at_ms))
        signed = _signed(one.stated_by, one.signature, stated, keys, is_past=True)
        if signed is None:
            raise Refused(
                f"that contract {envelope.contract} ends is not signed by a key of "
                f"{one.stated_by} that "
                "is known here"
            )
        found.append(signed.public_key)
    return found


def verified_sentence(party: Participant, sentence: str, signature: bytes, keys: Keys) -> bytes:
    """The key by which a party has signed a sentence; Refused if it is none that is known."""
    signed = _signed(party, signature, statement_bytes(sentence), keys, is_past=True)
    if signed is None:
        raise Refused(f"{party} has not signed that it {sentence[:60]!r}")
    return signed.public_key


def bytes_of_due(statement: str) -> bytes:
    """What is signed of a statement that is due: it, or the contract that it names."""
    if statement.startswith(SIGNS):
        return contract_bytes(checked_revision(statement.removeprefix(SIGNS)))
    return statement_bytes(statement)


def _signed(
    party: Participant, signature: bytes, message: bytes, keys: Keys, *, is_past: bool
) -> Signed | None:
    known = keys.get(party)
    if known is None:
        return None
    for key in known.ever if is_past else known.counting:
        if is_signed(key, signature, message):
            return Signed(signature=signature, public_key=key)
    return None
