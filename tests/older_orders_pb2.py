"""What protoc had made of `orders_pb2`'s file when orders were nothing but a number:

syntax = "proto3";
package shop;
message Order { int64 id = 1; }
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder

_Field = descriptor_pb2.FieldDescriptorProto
_file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
_file.message_type.add(name="Order").field.add(name="id", number=1, type=_Field.TYPE_INT64, label=_Field.LABEL_OPTIONAL)

# The pool that all share has the newer file.
DESCRIPTOR = descriptor_pool.DescriptorPool().AddSerializedFile(_file.SerializeToString())
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
