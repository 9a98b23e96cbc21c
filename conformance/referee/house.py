"""Statements over an ADBC connection."""


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
