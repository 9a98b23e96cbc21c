"""Java and the Flight SQL JDBC driver. Neither is a package of ours: tests run where both are, and say so elsewhere."""

import os
import pathlib
import shutil

VERSION = "18.3.0"
JAR = f"flight-sql-jdbc-driver-{VERSION}.jar"
PLACES = [
    pathlib.Path(__file__).resolve().parents[2] / ".tools" / JAR,  # where `make jdbc` puts it
    pathlib.Path.home() / ".m2/repository/org/apache/arrow/flight-sql-jdbc-driver" / VERSION / JAR,
]
MISSING = f"needs java, and {JAR} where `make jdbc` puts it or FLIGHT_SQL_JDBC_JAR says"


def driver():
    """The path of the driver, None where it or Java is missing."""
    places = [pathlib.Path(os.environ["FLIGHT_SQL_JDBC_JAR"])] if "FLIGHT_SQL_JDBC_JAR" in os.environ else PLACES
    return next((str(p) for p in places if shutil.which("java") and p.is_file()), None)


def command(program, *arguments):
    """The command line that runs a program of one file."""
    options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return ["java", *options, "-cp", driver(), str(program), *arguments]
