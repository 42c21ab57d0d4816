"""Fill the cache of rocrate-validator with the contexts beside this file. Its own Python runs this: OUT is the cache.

.validators/validators/bin/python tests/validators/offline_contexts.py .validators/contexts
"""

import io
import sys
from pathlib import Path

import requests_cache
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

CONTEXTS = {
    "https://w3id.org/ro/crate/1.1/context": "ro-crate-1.1.jsonld",
    "https://w3id.org/ro/terms/workflow-run/context": "workflow-run.jsonld",
}


class Files(HTTPAdapter):
    """Answer from files, and never from the network."""

    def send(self, request: PreparedRequest, *_: object, **__: object) -> Response:
        content = Path(__file__).with_name("contexts").joinpath(CONTEXTS[str(request.url)]).read_bytes()
        headers = {"Content-Type": "application/ld+json"}
        raw = HTTPResponse(body=io.BytesIO(content), headers=headers, status=200, preload_content=False)
        return self.build_response(request, raw)


if __name__ == "__main__":
    with requests_cache.CachedSession(sys.argv[1], backend="sqlite", expire_after=-1) as session:
        session.mount("https://", Files())
        for address in CONTEXTS:
            session.get(address).raise_for_status()
