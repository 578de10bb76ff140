"""The versions of Kafka's APIs that the brokers speak."""

from __future__ import annotations

from aioproducer.testing.mock_cluster.commands import Commands
from aioproducer.testing.mock_cluster.process import MockClusterArgumentError

__all__ = ["ApiVersions"]


class ApiVersions(Commands):
    """The versions now, and the command that narrows them."""

    def __init__(self, brokers: int) -> None:
        super().__init__(brokers)
        self._api_versions: dict[int, tuple[int, int]] = {}

    @property
    def api_versions(self) -> dict[int, tuple[int, int]]:
        """API key → first and last version that the brokers speak now; ``(-1, -1)``: none."""
        return dict(self._api_versions)

    def set_api_version(self, api_key: int, min_version: int, max_version: int) -> None:
        """Narrow the versions that the brokers speak; -1 and -1 take the API away.

        Connections that know the old versions are closed when they use them.
        """
        first, last = self._check_api(api_key)
        narrower = first <= min_version <= max_version <= last
        if not narrower and (min_version, max_version) != (-1, -1):
            raise MockClusterArgumentError(
                f"the mock cluster implements API {api_key} in the versions {first} to {last}, "
                f"not {min_version} to {max_version}"
            )
        self._call("set_apiversion", api_key, min_version, max_version)
        self._api_versions[api_key] = (min_version, max_version)
