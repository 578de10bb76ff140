"""ApiVersions: the versions of a broker's requests. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kio.static.protocol import RequestPayload

from aioproducer.admin.requests.answer import Answer
from aioproducer.engine.network.apis import Api, request_module
from aioproducer.foundation.version import __version__

_FIRST_WITH_SOFTWARE: Final = 3


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    """Ask a broker for its versions. The answer has a mapping of names to lowest and highest."""

    api: Api = Api.API_VERSIONS
    answered: bool = True

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module: Any = request_module(Api.API_VERSIONS, version)
        software: dict[str, Any] = {}
        if version >= _FIRST_WITH_SOFTWARE:
            software = {
                "client_software_name": "aioproducer",
                "client_software_version": __version__,
            }
        request: RequestPayload = module.ApiVersionsRequest(**software)
        return request

    def read(self, response: Any) -> Answer:
        """The answer; requests that this client does not make are left out."""
        ours = {int(api): api.name for api in Api}
        ranges = {
            ours[int(each.api_key)]: (int(each.min_version), int(each.max_version))
            for each in response.api_keys
            if int(each.api_key) in ours
        }
        return Answer.of(response, dict(sorted(ranges.items())))
