"""The requests of an Admin in every version. No I/O."""

from aioproducer.admin.requests.answer import Answer
from aioproducer.admin.requests.cluster import (
    AlterConfigsRequest,
    ApiVersionsRequest,
    DescribeConfigsRequest,
)
from aioproducer.admin.requests.groups import (
    AlterOffsetsRequest,
    CommittedOffsetsRequest,
    DeleteGroupsRequest,
    DeleteOffsetsRequest,
    DescribeConsumerGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from aioproducer.admin.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)

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
    "ListGroupsRequest",
]
