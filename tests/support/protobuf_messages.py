"""Classes of Protobuf messages, made without a compiler: a file, another that it imports, and maps.

::

    shop/money.proto    package shop; message Money { string currency = 1; int64 cents = 2; }
    shop/order.proto    package shop; imports shop/money.proto and Google's timestamp.proto
        message Payment { int64 id = 1; Money amount = 2; }
        message Order { int64 id = 1; string customer = 2; map<string, string> tags = 3;
            message Item { string sku = 1; Money price = 2; } repeated Item items = 4;
            google.protobuf.Timestamp at = 5; }
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    timestamp_pb2,
)

TEXT: Final = """\
syntax = "proto3";
/* message Comment { } */ package shop;  // message Line { }
import "shop/money.proto";
import "google/protobuf/timestamp.proto";
message Payment { int64 id = 1; Money amount = 2; }
message Order {
  int64 id = 1;
  string customer = 2;
  map<string, string> tags = 3;
  message Item { string sku = 1 [json_name = "{ message No {"]; Money price = 2; }
  repeated Item items = 4;
  google.protobuf.Timestamp at = 5;
  oneof rest { string message = 6; }
  enum Kind { NONE = 0; }
}
"""
"""The file shop/order.proto as text, with traps for a simple reader."""


def _file(name: str, *imports: str) -> Any:
    return descriptor_pb2.FileDescriptorProto(
        name=name, package="shop", syntax="proto3", dependency=imports
    )


def _field(message: Any, name: str, number: int, kind: int | str, *, many: bool = False) -> None:
    field = message.field.add(name=name, number=number, label=3 if many else 1)
    if isinstance(kind, str):
        field.type, field.type_name = 11, kind
    else:
        field.type = kind


def _made() -> dict[str, Any]:
    money = _file("shop/money.proto")
    amount = money.message_type.add(name="Money")
    _field(amount, "currency", 1, 9)
    _field(amount, "cents", 2, 3)
    order = _file("shop/order.proto", "shop/money.proto", "google/protobuf/timestamp.proto")
    payment = order.message_type.add(name="Payment")
    _field(payment, "id", 1, 3)
    _field(payment, "amount", 2, ".shop.Money")
    message = order.message_type.add(name="Order")
    entry = message.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    _field(entry, "key", 1, 9)
    _field(entry, "value", 2, 9)
    item = message.nested_type.add(name="Item")
    _field(item, "sku", 1, 9)
    _field(item, "price", 2, ".shop.Money")
    _field(message, "id", 1, 3)
    _field(message, "customer", 2, 9)
    _field(message, "tags", 3, ".shop.Order.TagsEntry", many=True)
    _field(message, "items", 4, ".shop.Order.Item", many=True)
    _field(message, "at", 5, ".google.protobuf.Timestamp")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(money)
    pool.Add(order)
    names = ("shop.Money", "shop.Payment", "shop.Order", "shop.Order.Item")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names
    }


_CLASSES: Final = _made()
Money: Any = _CLASSES["shop.Money"]
Payment: Any = _CLASSES["shop.Payment"]
Order: Any = _CLASSES["shop.Order"]
Item: Any = _CLASSES["shop.Order.Item"]


def an_order() -> Any:
    """An order with every field."""
    order = Order(id=7, customer="Ada", tags={"colour": "red"})
    order.items.add(sku="a", price=Money(currency="EUR", cents=250))
    order.at.seconds = 1_700_000_000
    return order
