"""The requests of an Admin in every version. No I/O."""

from aioproducer.admin.requests.alter_configs import AlterConfigsRequest
from aioproducer.admin.requests.alter_offsets import AlterOffsetsRequest
from aioproducer.admin.requests.answer import Answer
from aioproducer.admin.requests.api_versions import ApiVersionsRequest
from aioproducer.admin.requests.committed_offsets import CommittedOffsetsRequest
from aioproducer.admin.requests.create_partitions import CreatePartitionsRequest
from aioproducer.admin.requests.create_topics import CreateTopicsRequest
from aioproducer.admin.requests.delete_groups import DeleteGroupsRequest
from aioproducer.admin.requests.delete_offsets import DeleteOffsetsRequest
from aioproducer.admin.requests.delete_records import DeleteRecordsRequest
from aioproducer.admin.requests.delete_topics import DeleteTopicsRequest
from aioproducer.admin.requests.describe_configs import DescribeConfigsRequest
from aioproducer.admin.requests.describe_consumer_groups import DescribeConsumerGroupsRequest
from aioproducer.admin.requests.describe_groups import DescribeGroupsRequest
from aioproducer.admin.requests.find_coordinator import FindCoordinatorRequest
from aioproducer.admin.requests.list_groups import ListGroupsRequest

__all__ = [
    "AlterConfigsRequest",
    "AlterOffsetsRequest",
    "Answer",
    "ApiVersionsRequest",
    "CommittedOffsetsRequest",
    "CreatePartitionsRequest",
    "CreateTopicsRequest",
    "DeleteGroupsRequest",
    "DeleteOffsetsRequest",
    "DeleteRecordsRequest",
    "DeleteTopicsRequest",
    "DescribeConfigsRequest",
    "DescribeConsumerGroupsRequest",
    "DescribeGroupsRequest",
    "FindCoordinatorRequest",
    "ListGroupsRequest",
]
