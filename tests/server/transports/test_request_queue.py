import asyncio

import anyio
import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest

from toolbox_mcp.server.transports.stdio.request_queue import AHEAD, MAX_HELD, Intake


def call(number):
    return JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/call", params={"name": "t"})


def request(number, method):
    return JSONRPCRequest(jsonrpc="2.0", id=number, method=method)


def cancel(number):
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": number})


async def taken(intake):
    """Return the ids of what the server can have at this moment, with the method where there is no id."""
    found = []
    while True:
        try:
            item = await asyncio.wait_for(intake.receive(), 0.01)
        except TimeoutError:
            return found
        found.append(getattr(item.message, "id", item.message.method))


async def test_no_more_calls_than_allowed_are_handed_over_and_the_rest_keeps_its_order():
    intake = Intake(2)
    for number in range(5):
        intake.offer(call(number), 10)
    assert await taken(intake) == [0, 1]
    intake.settled(1)
    intake.settled(0)
    assert await taken(intake) == [2, 3]


async def test_pings_lists_and_cancellations_pass_calls_that_wait():
    intake = Intake(1)
    for number in range(3):
        intake.offer(call(number), 10)
    intake.offer(request(8, "ping"), 10)
    intake.offer(request(9, "tools/list"), 10)
    intake.offer(cancel(0), 10)
    assert await taken(intake) == [0, 8, 9, "notifications/cancelled"]


@pytest.mark.parametrize("wanted", [1, "1"])
async def test_a_call_cancelled_while_it_waits_never_reaches_the_server(wanted):
    intake = Intake(1)
    for number in range(3):
        intake.offer(call(number), 10)
    intake.offer(cancel(wanted), 10)
    assert await taken(intake) == [0]
    intake.settled(0)
    assert await taken(intake) == [2]


async def test_a_call_that_is_never_answered_gives_its_place_back():
    intake = Intake(1)
    intake.offer(call(0), 10)
    intake.offer(call(1), 10)
    item = await intake.receive()
    await item.metadata.on_request_unanswered()
    assert await taken(intake) == [1]


async def test_an_id_used_twice_counts_twice():
    intake = Intake(2)
    for number in (1, 1, 2):
        intake.offer(call(number), 10)
    assert await taken(intake) == [1, 1]
    intake.settled(1)
    assert await taken(intake) == [2]
    assert not intake.idle
    intake.settled(1)
    intake.settled(2)
    intake.settled(2)
    assert intake.idle


async def test_it_is_full_by_number_and_by_bytes_and_empties_again():
    changes = []
    intake = Intake(1, lambda: changes.append(intake.full))
    for number in range(MAX_HELD + 1):
        intake.offer(call(number), 1)
    assert intake.full
    assert await taken(intake) == [0]
    intake.settled(0)
    assert await taken(intake) == [1]
    assert not intake.full
    assert changes[-1] is False
    intake.offer(call("large"), 33 * 1024 * 1024)
    assert intake.full


async def test_the_end_drops_what_waits_and_wakes_who_receives():
    intake = Intake(1)
    waiting = asyncio.create_task(intake.receive())
    await asyncio.sleep(0)
    intake.end()
    with pytest.raises(anyio.EndOfStream):
        await asyncio.wait_for(waiting, 5)
    intake.offer(call(1), 10)
    assert intake.idle
    assert [item async for item in intake] == []


async def test_a_subscription_does_not_keep_the_server_from_being_idle():
    intake = Intake(1)
    intake.offer(request(1, "subscriptions/listen"), 10)
    intake.offer(request(2, "tools/list"), 10)
    assert await taken(intake) == [1, 2]
    assert not intake.idle
    intake.settled(2)
    assert intake.idle


async def test_what_a_client_says_ahead_of_its_first_request_never_stops_the_reading():
    resumed = []
    intake = Intake(2, lambda: resumed.append(intake.full))
    opening = asyncio.create_task(intake.opening())
    for number in range(MAX_HELD):
        intake.offer(cancel(number), 10)
    assert intake.full
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (intake.full, resumed) == (False, [False])
    intake.offer(request(1, "initialize"), 10)
    async with asyncio.timeout(10):
        assert (await opening).id == 1
    kept = await taken(intake)
    assert kept == ["notifications/cancelled"] * AHEAD + [1]
