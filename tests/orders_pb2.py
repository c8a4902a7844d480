"""What protoc would make of this file, from its descriptor:

    syntax = "proto3";
    package shop;
    import "google/protobuf/timestamp.proto";
    enum State { OPEN = 0; PAID = 1; }
    message Note { string text = 1; }
    message Order {
      message Item { string name = 1; int64 cents = 2; }
      int64 id = 1;
      optional string city = 2;
      State state = 3;
      repeated Item items = 4;
      map<string, int32> counts = 5;
      google.protobuf.Timestamp placed = 6;
      Note note = 7;
    }
"""  # fmt: skip

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.internal import builder

_Field = descriptor_pb2.FieldDescriptorProto
_file = descriptor_pb2.FileDescriptorProto(
    name="orders.proto", package="shop", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
)
_state = _file.enum_type.add(name="State")
_state.value.add(name="OPEN", number=0)
_state.value.add(name="PAID", number=1)
_file.message_type.add(name="Note").field.add(
    name="text", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL
)
_order = _file.message_type.add(name="Order")
_item = _order.nested_type.add(name="Item")
_item.field.add(name="name", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
_item.field.add(name="cents", number=2, type=_Field.TYPE_INT64, label=_Field.LABEL_OPTIONAL)
_entry = _order.nested_type.add(name="CountsEntry")
_entry.options.map_entry = True
_entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
_entry.field.add(name="value", number=2, type=_Field.TYPE_INT32, label=_Field.LABEL_OPTIONAL)
_order.oneof_decl.add(name="_city")
for _name, _number, _type, _label, _of in [
    ("id", 1, _Field.TYPE_INT64, _Field.LABEL_OPTIONAL, None),
    ("city", 2, _Field.TYPE_STRING, _Field.LABEL_OPTIONAL, None),
    ("state", 3, _Field.TYPE_ENUM, _Field.LABEL_OPTIONAL, ".shop.State"),
    ("items", 4, _Field.TYPE_MESSAGE, _Field.LABEL_REPEATED, ".shop.Order.Item"),
    ("counts", 5, _Field.TYPE_MESSAGE, _Field.LABEL_REPEATED, ".shop.Order.CountsEntry"),
    ("placed", 6, _Field.TYPE_MESSAGE, _Field.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
    ("note", 7, _Field.TYPE_MESSAGE, _Field.LABEL_OPTIONAL, ".shop.Note"),
]:
    _made = _order.field.add(name=_name, number=_number, type=_type, label=_label, type_name=_of)
    if _name == "city":
        _made.oneof_index, _made.proto3_optional = 0, True

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_file.SerializeToString())
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
