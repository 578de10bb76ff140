"""ApiVersions: the versions of a broker's requests. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aioproducer.admin.requests.answer import Answer
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.foundation.version import __version__


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    """Ask a broker for its versions. The answer has a mapping of names to lowest and highest."""

    api: Api = Api.API_VERSIONS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.API_VERSIONS)
        request = schema.ApiVersionsRequest("aioproducer", __version__)
        return encoded(Api.API_VERSIONS, version, request)

    def read(self, response: Any) -> Answer:
        """The answer; requests that this client does not make are left out."""
        ours = {int(api): api.name for api in Api}
        ranges = {
            ours[each.api_key]: (each.min_version, each.max_version)
            for each in response.api_keys
            if each.api_key in ours
        }
        return Answer.of(response, dict(sorted(ranges.items())))
