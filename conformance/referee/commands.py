"""Commands of Flight SQL over raw gRPC, for the exact code of what they answer."""

import flightsql.flightsql_pb2 as messages
import pyarrow.flight as fl
from google.protobuf import any_pb2

from .rpc import command, field


def packed(message):
    holder = any_pb2.Any()
    holder.Pack(message)
    return holder.SerializeToString()


def query(raw, text):
    """GetFlightInfo of a statement and, if there is one, DoGet of all its endpoints."""
    return whole(raw, raw.call("GetFlightInfo", command(packed(messages.CommandStatementQuery(query=text)))))


def whole(raw, told):
    if told.code == "OK":
        for endpoint in fl.FlightInfo.deserialize(told.data).endpoints:
            told = raw.get(endpoint.ticket.ticket)
    return told


def prepare(raw, text):
    body = packed(messages.ActionCreatePreparedStatementRequest(query=text))
    return raw.call("DoAction", field(1, b"CreatePreparedStatement") + field(2, body))


def update(raw, text):
    return raw.call("DoPut", field(1, command(packed(messages.CommandStatementUpdate(query=text)))))
