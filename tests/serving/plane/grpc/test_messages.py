"""Our description of the protocol is what protoc makes of it, and says what others' says."""

from google.protobuf import descriptor_pb2
from tritonclient.grpc import service_pb2

from falaj.serving.plane.grpc import messages
from scripts.write_protocol import TARGET, compiled


def test_the_compiled_description_is_current():
    assert TARGET.read_text() == compiled(), "run scripts/write_protocol.py"


def test_every_field_has_the_number_and_the_type_that_tritons_clients_use():
    ours = descriptor_pb2.FileDescriptorProto()
    messages.ModelInferRequest.DESCRIPTOR.file.CopyToProto(ours)
    theirs = descriptor_pb2.FileDescriptorProto()
    service_pb2.DESCRIPTOR.CopyToProto(theirs)
    known = {message.name: message for message in theirs.message_type}

    def compare(one: descriptor_pb2.DescriptorProto, other: descriptor_pb2.DescriptorProto) -> None:
        def facts(message: descriptor_pb2.DescriptorProto) -> set[tuple[object, ...]]:
            return {(field.name, field.number, field.type, field.label, field.type_name) for field in message.field}

        assert facts(one) == facts(other), one.name
        nested = {each.name: each for each in other.nested_type}
        for each in one.nested_type:
            compare(each, nested[each.name])

    assert len(ours.message_type) > 15
    for message in ours.message_type:
        compare(message, known[message.name])
    methods = {method.name: (method.input_type, method.output_type) for method in theirs.service[0].method}
    for method in ours.service[0].method:
        assert methods[method.name] == (method.input_type, method.output_type)
