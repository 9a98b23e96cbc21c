"""A Flight client that speaks flightblob's JSON tickets, and nothing more than a user could write."""

import json

import pyarrow as pa
import pyarrow.flight as fl

TIMEOUT = 120  # seconds a call may take before a test calls it hung


def ticket(**want):
    return fl.Ticket(json.dumps(want).encode())


def reason(error):
    """The server's text without the client's own trailer."""
    return str(error).split(". Detail:", 1)[0].split(". gRPC client debug", 1)[0]


class Client:
    """One connection. Every method answers what came, or raises what pyarrow made of the status."""

    def __init__(self, uri, headers=None, timeout=TIMEOUT):
        self.uri, self.timeout = uri, timeout
        # 2 GiB - 1 is what a C++ client takes; the server cuts by itself.
        self.flight = fl.connect(uri, generic_options=[("grpc.max_receive_message_length", 2**31 - 1)])
        pairs = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        self.options = fl.FlightCallOptions(timeout=timeout, headers=pairs)

    def close(self):
        self.flight.close()

    def reader(self, **want):
        return self.flight.do_get(ticket(**want), self.options)

    def get(self, **want):
        """The whole answer as a table, with the schema exactly as it came."""
        return self.reader(**want).read_all()

    def batches(self, **want):
        """The answer's record batches, as the server cut them."""
        return [chunk.data for chunk in self.reader(**want)]

    def info(self, **want):
        return self.flight.get_flight_info(fl.FlightDescriptor.for_command(json.dumps(want).encode()), self.options)

    def path_info(self, *path):
        return self.flight.get_flight_info(fl.FlightDescriptor.for_path(*path), self.options)

    def schema(self, **want):
        answer = self.flight.get_schema(fl.FlightDescriptor.for_command(json.dumps(want).encode()), self.options)
        return answer.schema

    def from_info(self, info):
        """All endpoints of an info, in order, as one table."""
        parts = [self.flight.do_get(e.ticket, self.options).read_all() for e in info.endpoints]
        return pa.concat_tables(parts) if len(parts) > 1 else parts[0]

    def put(self, rows, chunk=None, headers=None, **command):
        """Puts a table, or an iterable of record batches, by a JSON command. Answers the put result's JSON."""
        batches = rows.to_batches(max_chunksize=chunk) if isinstance(rows, pa.Table) else list(rows)
        schema = rows.schema if isinstance(rows, pa.Table) else batches[0].schema
        descriptor = fl.FlightDescriptor.for_command(json.dumps(command).encode())
        pairs = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        writer, results = self.flight.do_put(
            descriptor, schema, fl.FlightCallOptions(timeout=self.timeout, headers=pairs)
        )
        with writer:
            for batch in batches:
                writer.write_batch(batch)
            writer.done_writing()
            return json.loads(results.read().to_pybytes())

    def flights(self):
        return list(self.flight.list_flights(options=self.options))

    def action(self, name, /, **body):
        results = self.flight.do_action(fl.Action(name, json.dumps(body).encode()), self.options)
        return [json.loads(r.body.to_pybytes()) for r in results]
