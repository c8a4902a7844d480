"""How does the .proto file read that a generated class came from?

A class knows its file as a descriptor only. Registries are made for texts: they compare them, check whether a new one
is compatible, and show them to people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from google.protobuf import descriptor_pb2, text_encoding
from google.protobuf.unknown_fields import UnknownFieldSet

_Field = descriptor_pb2.FieldDescriptorProto
_INDENT = "  "
#: What stands for `max`: ranges of messages end before, ranges of enums with it.
_NUMBERS_END = 1 << 29
_ENUM_MAX = (1 << 31) - 1


class _OnlyInDescriptors(Exception):
    """The file has something that is not written here."""


def proto_text(serialized: bytes) -> str | None:
    """Of a file's descriptor. None: it has options of its own, groups or editions, and remains a descriptor."""
    try:
        return "\n".join(_file(descriptor_pb2.FileDescriptorProto.FromString(serialized))) + "\n"
    except _OnlyInDescriptors:
        return None


def _file(file: Any) -> Iterator[str]:
    if file.syntax not in ("", "proto2", "proto3"):
        raise _OnlyInDescriptors
    yield f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    for index, name in enumerate(file.dependency):
        how = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
        yield f"import {how}{_quoted(name)};"
    proto3 = file.syntax == "proto3"
    yield from _option_lines(file.options)
    for message in file.message_type:
        yield from _message(message, proto3=proto3)
    for enum in file.enum_type:
        yield from _enum(enum)
    yield from _extensions(file.extension, proto3=proto3)
    for service in file.service:
        yield from _service(service)


def _message(message: Any, *, proto3: bool) -> Iterator[str]:
    yield f"message {message.name} {{"
    yield from _indented(_members(message, proto3=proto3))
    yield "}"


def _members(message: Any, *, proto3: bool) -> Iterator[str]:
    yield from _option_lines(message.options)
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    # In front of all maps, so that readers give the same numbers to them, whether they count the maps' entries or not.
    for nested in message.nested_type:
        if nested.name not in entries:
            yield from _message(nested, proto3=proto3)
    for enum in message.enum_type:
        yield from _enum(enum)
    for choice, fields in groupby(message.field, key=_oneof_of):
        lines = [_field(each, entries, proto3=proto3) for each in fields]
        if choice is None:
            yield from lines
        else:
            declared = message.oneof_decl[choice]
            yield f"oneof {declared.name} {{"
            yield from _indented([*_option_lines(declared.options), *lines])
            yield "}"
    yield from _extensions(message.extension, proto3=proto3)
    for extended in message.extension_range:
        if extended.HasField("options"):
            raise _OnlyInDescriptors
        yield f"extensions {_range(extended.start, extended.end - 1, _NUMBERS_END - 1)};"
    ranges = [_range(each.start, each.end - 1, _NUMBERS_END - 1) for each in message.reserved_range]
    yield from _reserved(ranges, message.reserved_name)


def _oneof_of(field: Any) -> int | None:
    return field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else None


def _field(field: Any, entries: dict[str, Any], *, proto3: bool) -> str:
    if field.type == _Field.TYPE_GROUP:
        raise _OnlyInDescriptors
    options = list(_options(field.options))
    if field.HasField("default_value"):
        options.insert(0, f"default = {_default(field)}")
    if field.HasField("json_name"):
        options.append(f"json_name = {_quoted(field.json_name)}")
    entry = entries.get(field.type_name.rpartition(".")[2]) if field.label == _Field.LABEL_REPEATED else None
    kind = f"{_label(field, proto3=proto3)}{_type(field)}"
    if entry is not None:
        kind = f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>"
    return f"{kind} {field.name} = {field.number}{_in_brackets(options)};"


def _label(field: Any, *, proto3: bool) -> str:
    if field.label == _Field.LABEL_REPEATED:
        return "repeated "
    if _oneof_of(field) is not None or (proto3 and not field.proto3_optional):
        return ""
    return "required " if field.label == _Field.LABEL_REQUIRED else "optional "


def _type(field: Any) -> str:
    return str(field.type_name or _Field.Type.Name(field.type).removeprefix("TYPE_").lower())


def _default(field: Any) -> str:
    match field.type:
        case _Field.TYPE_STRING:
            return _quoted(field.default_value)
        case _Field.TYPE_BYTES:  # is escaped already
            return f'"{field.default_value}"'
        case _:
            return str(field.default_value)


def _extensions(fields: Iterable[Any], *, proto3: bool) -> Iterator[str]:
    for extended, together in groupby(fields, key=lambda field: field.extendee):
        yield f"extend {extended} {{"
        yield from _indented(_field(each, {}, proto3=proto3) for each in together)
        yield "}"


def _enum(enum: Any) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(_option_lines(enum.options))
    for value in enum.value:
        yield f"{_INDENT}{value.name} = {value.number}{_in_brackets(_options(value.options))};"
    ranges = [_range(each.start, each.end, _ENUM_MAX) for each in enum.reserved_range]
    yield from _indented(_reserved(ranges, enum.reserved_name))
    yield "}"


def _service(service: Any) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from _indented(_option_lines(service.options))
    for method in service.method:
        given = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        answered = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        options = list(_option_lines(method.options))
        ending = f" {{ {' '.join(options)} }}" if options else ";"
        yield f"{_INDENT}rpc {method.name} ({given}) returns ({answered}){ending}"
    yield "}"


def _reserved(ranges: list[str], names: Iterable[str]) -> Iterator[str]:
    for each in (ranges, [_quoted(name) for name in names]):
        if each:
            yield f"reserved {', '.join(each)};"


def _range(first: int, last: int, greatest: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last == greatest else last}"


def _option_lines(options: Any) -> Iterator[str]:
    for option in _options(options):
        yield f"option {option};"


def _options(options: Any) -> Iterator[str]:
    if len(UnknownFieldSet(options)):
        raise _OnlyInDescriptors
    for field, value in options.ListFields():
        if field.is_extension or not isinstance(value, str | int | float):
            raise _OnlyInDescriptors
        if field.name == "map_entry":
            continue
        if field.enum_type is not None:
            told = field.enum_type.values_by_number[value].name
        else:
            told = _quoted(value) if isinstance(value, str) else str(value).lower()
        yield f"{field.name} = {told}"


def _in_brackets(options: Iterable[str]) -> str:
    told = ", ".join(options)
    return f" [{told}]" if told else ""


def _quoted(text: str) -> str:
    return f'"{text_encoding.CEscape(text, as_utf8=True)}"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)
