"""What the supervisor and a worker say to each other arrives as it was said."""

import asyncio
import socket

import pytest

from falaj.base.clock import Moment
from falaj.serving.operations.planes import CallReport, RevisionReport
from falaj.serving.plane.channel import (
    Adopt,
    Adopted,
    AllSet,
    Channel,
    Did,
    Drain,
    Ease,
    Figures,
    Order,
    SetLoaded,
    Setup,
    WantsFigures,
    WantsSet,
    WasSet,
    Word,
)

CALL = CallReport(
    endpoint="1" * 32,
    revision=2,
    id="a",
    at=Moment(1_700_000_000_000_000),
    caller="c",
    status="ok",
    ms=1.5,
    inputs="{}",
    outputs="{}",
)
DONE = RevisionReport(endpoint="1" * 32, revision=2, ready=True, requests=3, latencies=(0, 1, 2), cold_start_ms=12.5)
SETUP = Setup(
    key=b"k", models="m", answers="a", certificate="", private_key="", body_bytes=1, memory_bytes=2, threads=3, python="p"
)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Order, SETUP),
        (Order, Adopt(body=b"{}", broken=("r",), unloaded=("e",))),
        (Order, SetLoaded(number=1, endpoint="e", loaded=True)),
        (Order, AllSet(number=1, problem="why")),
        (Order, Drain(leaving=True)),
        (Order, Ease(share=0.5)),
        (Order, Figures("text")),
        (Word, Adopted(serial=7, problems={"r": "why"})),
        (Word, Did(revisions=(DONE,), calls=(CALL,), problems={}, connections=4)),
        (Word, WantsFigures(project="p")),
        (Word, WantsSet(number=1, endpoint="e", loaded=False)),
        (Word, WasSet(number=1, problem="why")),
    ],
    ids=lambda one: type(one).__name__,
)
def test_every_message_arrives_as_it_was_sent(kind, message):
    async def play():
        ours, theirs = socket.socketpair()
        sender, reader = await Channel.over(ours, kind), await Channel.over(theirs, kind)
        sender.send(message)
        arrived = await reader.read()
        sender.close()
        assert await reader.read() is None
        reader.close()
        return arrived

    assert asyncio.run(play()) == message
