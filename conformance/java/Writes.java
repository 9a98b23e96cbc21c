import java.sql.*;
import java.util.*;

/**
 * Writes by the JDBC driver into an empty root: prints what the driver counts, line by line.
 *
 * <p>Arguments: the server's HOST:PORT and the URI of an object.
 */
public class Writes {
  public static void main(String[] arguments) throws Exception {
    String url = "jdbc:arrow-flight-sql://" + arguments[0] + "/?useEncryption=false";
    try (Connection c = DriverManager.getConnection(url)) {
      try (Statement s = c.createStatement()) {
        s.executeUpdate("CREATE SCHEMA s");
        s.executeUpdate("CREATE TABLE s.t (id INT NOT NULL, name VARCHAR, at TIMESTAMP, img LANCE_BLOB)");
        System.out.println("statement " + s.executeUpdate("INSERT INTO s.t VALUES (0, 'a', NULL, 'x'::BLOB), (1, 'b', NULL, NULL)"));
      }
      try (PreparedStatement p = c.prepareStatement("INSERT INTO s.t VALUES (?, ?, ?, ?)")) {
        for (int i = 2; i < 1002; i++) {
          p.setInt(1, i);
          p.setString(2, "n" + i);
          p.setTimestamp(3, new Timestamp(i * 1000L), Calendar.getInstance(TimeZone.getTimeZone("UTC")));
          if (i % 2 == 0) p.setBytes(4, ("v" + i).getBytes()); else p.setNull(4, Types.VARBINARY);
          p.addBatch();
        }
        System.out.println("batch " + Arrays.stream(p.executeBatch()).sum());
        p.setInt(1, 1002);
        p.setString(2, null);
        p.setNull(3, Types.TIMESTAMP);
        p.setBytes(4, new byte[0]);
        System.out.println("row " + p.executeUpdate());
      }
      try (PreparedStatement p = c.prepareStatement("INSERT INTO s.t (id, img) VALUES (? + 1, blob_ref(?, ?, ?))")) {
        for (int i = 1002; i < 1005; i++) {
          p.setInt(1, i);
          p.setString(2, arguments[1]);
          p.setLong(3, i - 1002);
          p.setLong(4, 2);
          p.addBatch();
        }
        System.out.println("references " + Arrays.stream(p.executeBatch()).sum());
      }
      try (PreparedStatement p = c.prepareStatement("INSERT INTO s.t VALUES (?, ?, ?, ?)")) {
        p.setNull(1, Types.INTEGER);
        p.setString(2, "x");
        p.setNull(3, Types.TIMESTAMP);
        p.setNull(4, Types.VARBINARY);
        p.addBatch();
        try {
          p.executeBatch();
          System.out.println("not refused");
        } catch (SQLException e) {
          System.out.println("refused " + e.getMessage().replace('\n', ' '));
        }
      }
    }
    System.out.println("done");
    System.exit(0);
  }
}
