"""Years of a table in minutes: see referee/life.py. LIFE_STEPS and LIFE_MINUTES lengthen the run, --seed replays it."""

import os
import time

import pytest
from referee.life import Life
from referee.server import Server

STEPS = int(os.environ.get("LIFE_STEPS", "100"))
MINUTES = float(os.environ.get("LIFE_MINUTES", "0"))


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-ids"])
def test_life(binary, tmp_path, seed, full, stable):
    """RWR-2 GC-3 GC-7 NUL-11 CLN-5"""
    (tmp_path / "root").mkdir()
    with Server(binary, tmp_path / "root", external=[tmp_path]) as server:
        minutes = MINUTES or (30 if full else 0)
        end = time.monotonic() + 60 * minutes
        life = Life(tmp_path, server, seed, stable)
        try:
            life.check()
            while len(life.log) < STEPS or time.monotonic() < end:
                life.step()
                life.check()
        except BaseException as error:
            error.add_note(life.told())
            raise
        server.check_alive()
        assert life.seen == {None, 0, 1, 2, 3, 4, 5}, "not every kind of value has lived"
