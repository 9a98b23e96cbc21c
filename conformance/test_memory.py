"""Memory stays within the agreed budget, however large the payload and however slow a reader."""

import threading
import time

import pytest
from referee import stock
from referee.client import Client
from referee.server import Server, memory

BUDGET = 64 << 20
ALLOWED = BUDGET + (250 << 20)  # the budget, and what a Go process of this size may need beside it
FAST = 8
VALUES = {"4 MiB": 4 << 20, "100 KiB": 100 << 10}


class Reader(threading.Thread):
    """Reads a table and drops every batch; a slow one waits after each while the fast ones run."""

    def __init__(self, uri, table, pause=None):
        super().__init__(daemon=True)
        self.client, self.table, self.pause = Client(uri), table, pause
        self.rows = self.bytes = 0
        self.error = None

    def run(self):
        try:
            for chunk in self.client.reader(table=self.table):
                self.rows += chunk.data.num_rows
                self.bytes += chunk.data.nbytes
                if self.pause is not None and not self.pause.is_set():
                    self.pause.wait(0.2)
        except Exception as error:
            self.error = error
        finally:
            self.client.close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("value", VALUES, ids=lambda v: v.replace(" ", ""))
@pytest.mark.parametrize("share", ["half", "whole", "double"])
def test_budget_holds(binary, tmp_path, full, value, share):
    payload = {"half": 1, "whole": 2, "double": 4}[share] * ((1 << 30) if full else (128 << 20))
    size = VALUES[value]
    rows = payload // size
    root = tmp_path / "root"
    root.mkdir()
    stock.write(root, "t", rows, lambda i: size)
    with Server(binary, root, arguments=["--memory", "64MiB"]) as server:
        done = threading.Event()
        slow = Reader(server.uri, "t", done)
        fast = [Reader(server.uri, "t") for _ in range(FAST)]
        started = time.monotonic()
        for reader in [slow, *fast]:
            reader.start()
        for reader in fast:
            reader.join(900)
        seconds = time.monotonic() - started
        done.set()
        slow.join(900)
        server.check_alive()
        high = memory(server.pid)["VmHWM"]
    for reader in [slow, *fast]:
        assert not reader.is_alive(), "a reader hangs"
        assert reader.error is None, reader.error
        assert reader.rows == rows
        assert reader.bytes >= rows * size
    total = FAST * payload / 1e9
    print(f"{value}, {payload >> 20} MiB: peak {high / 2**20:.0f} MiB of {ALLOWED >> 20}; {total / seconds:.2f} GB/s")
    assert high < ALLOWED, f"VmHWM {high / 2**20:.0f} MiB"
