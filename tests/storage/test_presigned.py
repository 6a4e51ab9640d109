"""Presigned URLs are those of AWS, and of its own client."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from pipelines.storage.object_settings import Keys
from pipelines.storage.presigned import presigned_url


def test_the_example_of_the_documentation_has_its_signature() -> None:
    """AWS, Amazon S3 API Reference: Authenticating Requests, Using Query Parameters."""
    keys = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    at_s = datetime(2013, 5, 24, tzinfo=UTC).timestamp()
    url = presigned_url(
        "https://examplebucket.s3.amazonaws.com/test.txt", "us-east-1", keys, at_s, 86_400
    )
    assert url.endswith(
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


def test_a_url_is_the_one_that_the_client_of_aws_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    auth = pytest.importorskip("botocore.auth", reason="moto is not installed: run make setup")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    at = datetime(2026, 11, 28, 1, 2, 3, tzinfo=UTC)
    monkeypatch.setattr(auth, "get_current_datetime", lambda *given: at.replace(tzinfo=None))
    url = "https://objects.example:9000/bucket/a b/stream/0123+4=.parquet"
    request = AWSRequest(method="GET", url=quote(url, safe=":/"))
    keys = Keys("ACCESS", "secret/+", "token/+=")
    signer = auth.S3SigV4QueryAuth(
        Credentials(keys.access, keys.secret, keys.token), "s3", "eu-1", expires=60
    )
    signer.add_auth(request)
    ours = presigned_url(url, "eu-1", keys, at.timestamp(), 60)

    def signature(of: str) -> str:
        return of.rpartition("X-Amz-Signature=")[2]

    assert signature(ours) == signature(request.url)
