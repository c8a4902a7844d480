"""Does a descriptor read like the file that it was made from?"""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from tests.orders_pb2 import Order

from cutwater.connectors.formats.protobuf_text import proto_text

Field = descriptor_pb2.FieldDescriptorProto


def text_of(file: Any) -> str | None:
    return proto_text(file.SerializeToString())


def test_a_file_in_proto3_reads_as_it_was_written() -> None:
    assert (
        proto_text(Order.DESCRIPTOR.file.serialized_pb)
        == """\
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Note {
  string text = 1;
}
message Order {
  message Item {
    string name = 1;
    int64 cents = 2;
  }
  int64 id = 1;
  optional string city = 2;
  .shop.State state = 3;
  repeated .shop.Order.Item items = 4;
  map<string, int32> counts = 5;
  .google.protobuf.Timestamp placed = 6;
  .shop.Note note = 7;
}
enum State {
  OPEN = 0;
  PAID = 1;
}
"""
    )


def test_a_file_in_proto2_keeps_labels_defaults_reserved_numbers_and_extensions() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", dependency=["a.proto"], public_dependency=[0])
    file.options.java_package = "shop"
    file.options.optimize_for = descriptor_pb2.FileOptions.SPEED
    old = file.message_type.add(name="Old", reserved_name=["gone"])
    old.reserved_range.add(start=5, end=6)
    old.reserved_range.add(start=1000, end=1 << 29)
    old.extension_range.add(start=100, end=200)
    old.field.add(name="id", number=1, type=Field.TYPE_INT64, label=Field.LABEL_REQUIRED)
    old.field.add(name="name", number=2, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL, default_value='a "b"\n')
    old.field.add(name="raw", number=3, type=Field.TYPE_BYTES, label=Field.LABEL_OPTIONAL, default_value="\\001")
    packed = old.field.add(name="many", number=4, type=Field.TYPE_INT32, label=Field.LABEL_REPEATED, json_name="all")
    packed.options.packed = True
    old.oneof_decl.add(name="one")
    for number, name in ((7, "this"), (8, "that")):
        old.field.add(name=name, number=number, type=Field.TYPE_BOOL, label=Field.LABEL_OPTIONAL, oneof_index=0)
    file.extension.add(
        name="more", number=100, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL, extendee=".Old"
    )  # fmt: skip
    state = file.enum_type.add(name="State")
    state.options.allow_alias = True
    state.value.add(name="OPEN", number=-1).options.deprecated = True
    state.reserved_range.add(start=4, end=(1 << 31) - 1)
    file.service.add(name="Shop").method.add(
        name="Follow", input_type=".Old", output_type=".Old", server_streaming=True
    )
    assert (
        text_of(file)
        == """\
syntax = "proto2";
import public "a.proto";
option java_package = "shop";
option optimize_for = SPEED;
message Old {
  required int64 id = 1;
  optional string name = 2 [default = "a \\"b\\"\\n"];
  optional bytes raw = 3 [default = "\\001"];
  repeated int32 many = 4 [packed = true, json_name = "all"];
  oneof one {
    bool this = 7;
    bool that = 8;
  }
  extensions 100 to 199;
  reserved 5, 1000 to max;
  reserved "gone";
}
enum State {
  option allow_alias = true;
  OPEN = -1 [deprecated = true];
  reserved 4 to max;
}
extend .Old {
  optional string more = 100;
}
service Shop {
  rpc Follow (.Old) returns (stream .Old);
}
"""
    )


def of_an_edition(file: Any) -> None:
    file.syntax = "editions"


def with_an_option_of_its_own(file: Any) -> None:
    file.options.MergeFromString(b"\xc2\xf3\x18\x01a")  # field 51000


def with_a_group(file: Any) -> None:
    file.message_type.add(name="M").field.add(name="g", number=1, type=Field.TYPE_GROUP, label=Field.LABEL_OPTIONAL)


@pytest.mark.parametrize("change", [of_an_edition, with_an_option_of_its_own, with_a_group])
def test_what_a_text_would_lose_stays_a_descriptor(change: Any) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto2")
    assert text_of(file) is not None
    change(file)
    assert text_of(file) is None
