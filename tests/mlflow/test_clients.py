"""The stock clients, unchanged, against a real platform; each flow checks for itself what it reads back."""

import re

import pytest

from tests.mlflow.clients import CLIENTS, FLOWS, UNSERVED_FLOW, Flows


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("flow", FLOWS)
def test_a_stock_client_works_unchanged(flows: Flows, client: str, flow: str) -> None:
    done = flows.done(client, flow)
    assert done.status == 0, done.said
    assert "done" in done.said.splitlines()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("flow", FLOWS)
def test_every_request_of_a_stock_client_is_served(flows: Flows, client: str, flow: str) -> None:
    done = flows.done(client, flow)
    assert done.exchanges
    assert done.unserved == []
    assert [exchange for exchange in done.exchanges if exchange.status >= 500] == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_script_that_traces_goes_on_with_a_warning(flows: Flows, client: str) -> None:
    done = flows.done(client, UNSERVED_FLOW)
    assert done.status == 0, done.said
    assert "done" in done.said.splitlines()
    assert {exchange.code for exchange in done.unserved} == {"NOT_IMPLEMENTED"}
    if client == "mlflow3":  # older ones keep it to themselves
        assert re.search(r"WARNING .* Falaj does not serve traces", done.said)
