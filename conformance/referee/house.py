"""Statements over an ADBC connection, and a house of its own for a test: a root, a server over it and a connection."""

import contextlib

import adbc_driver_flightsql.dbapi as dbapi
import lance

from .server import Server


class Statements:
    def __init__(self, connection):
        self.connection = connection

    def run(self, sql, parameters=None):
        """The number of rows that one statement changed."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.rowcount

    def many(self, sql, rows):
        """The same, of a statement with several bound rows."""
        with self.connection.cursor() as cursor:
            cursor.executemany(sql, rows)
            return cursor.rowcount

    def table(self, sql):
        """What a query answers."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table()


class House(Statements):
    """A root, a server over it, and a connection to that."""

    def __init__(self, root, server, connection):
        super().__init__(connection)
        self.root, self.server = root, server

    def path(self, name):
        return self.root / f"{name}.lance"

    def lance(self, name):
        return lance.dataset(self.path(name))

    def rows(self, sql, parameters=None):
        """What a statement answers, as tuples."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()


@contextlib.contextmanager
def opened(binary, folder, kind=House, external=()):
    """A house with its root in a folder; at the end the server must be alive and have caught no panic."""
    root = folder / "root"
    root.mkdir()
    with Server(binary, root, external=external) as server, dbapi.connect(server.uri, autocommit=True) as connection:
        yield kind(root, server, connection)
        server.check_alive()
        server.check_panics()
