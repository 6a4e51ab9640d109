"""Presigned URLs of objects: a GET of one object for a short time, without keys.

Signature version 4 of AWS in the query of a URL, which every S3-compatible server checks. The host
alone is signed of the headers, and the body of a GET is empty. Time is an argument.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from hmac import new as hmac_of
from urllib.parse import quote, urlencode, urlsplit

from pipelines.storage.object_settings import Keys

ALGORITHM = "AWS4-HMAC-SHA256"


def presigned_url(url: str, region: str, keys: Keys, at_s: float, expires_s: int) -> str:
    """The URL of an object with a signature that is valid for `expires_s` from `at_s` on.

    `url` is https://HOST/PATH, with no character escaped; `at_s` are seconds since 1970.
    """
    parts = urlsplit(url)
    at = datetime.fromtimestamp(at_s, UTC)
    moment, day = at.strftime("%Y%m%dT%H%M%SZ"), at.strftime("%Y%m%d")
    scope = f"{day}/{region}/s3/aws4_request"
    given = {
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{keys.access}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(expires_s),
        **({} if keys.token is None else {"X-Amz-Security-Token": keys.token}),
        "X-Amz-SignedHeaders": "host",
    }
    path, query = quote(parts.path), urlencode(given, quote_via=quote, safe="-_.~")
    request = f"GET\n{path}\n{query}\nhost:{parts.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = sha256(request.encode()).hexdigest()
    key = f"AWS4{keys.secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac_of(key, part.encode(), sha256).digest()
    signed = hmac_of(key, f"{ALGORITHM}\n{moment}\n{scope}\n{digest}".encode(), sha256)
    base = f"{parts.scheme}://{parts.netloc}{path}"
    return f"{base}?{query}&X-Amz-Signature={signed.hexdigest()}"
