import java.sql.*;
import java.util.*;
import java.util.concurrent.*;

/**
 * The JDBC driver against a server of the table `pictures`: one line for each check, "ok NAME" or "failed NAME: why".
 *
 * <p>Arguments: the server's HOST:PORT and a statement that runs for minutes.
 */
public class Clients {
  interface Check {
    void run(Connection c) throws Exception;
  }

  static final long LARGE = 17L << 20; // the size of picture 5
  static String url;

  static void want(boolean ok, Object seen) {
    if (!ok) throw new AssertionError(String.valueOf(seen));
  }

  /** Runs what must fail and gives its message, causes included. */
  static String refused(Callable<?> what) {
    try {
      what.call();
    } catch (Exception e) {
      StringBuilder text = new StringBuilder();
      for (Throwable t = e; t != null; t = t.getCause()) text.append(t).append('\n');
      return text.toString();
    }
    throw new AssertionError("no error");
  }

  static List<String> rows(ResultSet from) throws SQLException {
    List<String> rows = new ArrayList<>();
    try (ResultSet r = from) {
      while (r.next()) {
        List<String> row = new ArrayList<>();
        for (int i = 1; i <= r.getMetaData().getColumnCount(); i++) row.add(r.getString(i));
        rows.add(String.join("|", row));
      }
    }
    return rows;
  }

  static List<String> column(ResultSet from, String name) throws SQLException {
    List<String> values = new ArrayList<>();
    try (ResultSet r = from) {
      while (r.next()) values.add(r.getString(name));
    }
    return values;
  }

  static List<String> ask(Connection c, String sql) throws SQLException {
    try (Statement s = c.createStatement()) {
      return rows(s.executeQuery(sql));
    }
  }

  static void check(String name, String properties, Check check) {
    try {
      try (Connection c = DriverManager.getConnection(url + properties)) {
        check.run(c);
      }
      System.out.println("ok " + name);
    } catch (Throwable e) {
      System.out.println("failed " + name + ": " + e.toString().replace('\n', ' '));
    }
  }

  public static void main(String[] args) {
    url = "jdbc:arrow-flight-sql://" + args[0] + "?useEncryption=false";
    String endless = args[1];

    check("query", "", c -> {
      try (Statement s = c.createStatement();
          ResultSet r = s.executeQuery("SELECT * FROM pictures WHERE id = 1")) {
        want(r.next() && r.getLong(1) == 1 && r.getString("name").equals("picture 1"), "row");
        want(r.getTimestamp(4).getTime() == 1767323045000L, r.getTimestamp(4));
        want(r.getBytes("img").length == 3000 && !r.next(), "bytes");
      }
      want(ask(c, "SELECT count(*) FROM pictures").equals(List.of("6")), "count");
      want(c.isValid(1), "valid");
    });
    check("types", "", c -> {
      String sql = "SELECT 1::INTEGER, 'x', DATE '2020-02-29', TIME '01:02:03', 1.50::DECIMAL(5, 2), true, 2.5::DOUBLE,"
          + " TIMESTAMP '2020-02-29 01:02:03', 'a'::BLOB, uuid(), NULL, [1, 2], {'a': 1}, MAP {'k': 1}";
      try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
        want(r.next() && r.getObject(1).equals(1) && r.getObject(2).equals("x"), "int, text");
        want(r.getObject(3).equals(java.sql.Date.valueOf("2020-02-29")) && r.getString(4).startsWith("01:02:03"), "times");
        want(r.getBigDecimal(5).toPlainString().equals("1.50") && r.getBoolean(6) && r.getDouble(7) == 2.5, "numbers");
        want(r.getTimestamp(8).equals(Timestamp.valueOf("2020-02-29 01:02:03")), r.getTimestamp(8));
        want(r.getBytes(9)[0] == 'a' && r.getString(10).length() == 36 && r.getObject(11) == null, "bytes, uuid, null");
        want(((Object[]) r.getArray(12).getArray()).length == 2 && r.getString(13).equals("{\"a\":1}"), "nested");
      }
    });
    check("distortions", "", c -> {
      try (Statement s = c.createStatement();
          ResultSet r = s.executeQuery("SELECT 255::UTINYINT, serial, serial::DECIMAL(20, 0), taken FROM pictures LIMIT 1")) {
        want(r.next() && r.getLong(1) == -1 && r.getLong(2) < 0, "unsigned values wrap in the driver");
        want(r.getBigDecimal(3).toPlainString().equals("9223372036854775809"), "as decimal");
        want(refused(() -> r.getObject(4)).contains("not implemented"), "getObject of a time with a zone");
      }
      try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT id FROM pictures WHERE false")) {
        want(r.getMetaData().getColumnCount() == 2 && !r.next(), "columns of an empty result are listed twice");
      }
      try (PreparedStatement s = c.prepareStatement("SELECT id FROM pictures WHERE false"); ResultSet r = s.executeQuery()) {
        want(r.getMetaData().getColumnCount() == 1 && !r.next(), "unless it is prepared");
      }
      try (PreparedStatement s = c.prepareStatement("SELECT count(*) FROM pictures WHERE taken < ?")) {
        s.setTimestamp(1, Timestamp.valueOf("2030-01-01 00:00:00"));
        want(rows(s.executeQuery()).equals(List.of("6")), "milliseconds are bound whatever unit is described");
      }
      try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT img FROM pictures WHERE id = 1")) {
        want(r.next() && refused(() -> r.getBlob(1)).contains("not supported"), "getBlob");
      }
    });
    check("bi", "&flightblob-profile=bi", c -> {
      want(ask(c, "SELECT 255::UTINYINT, blob_size(img) FROM pictures WHERE id = 1").equals(List.of("255|3000")), "signed");
      want(refused(() -> ask(c, "SELECT serial FROM pictures")).contains("bi profile"), "more than 63 bits");
      try (PreparedStatement s = c.prepareStatement("SELECT count(*) FROM pictures WHERE taken < ? AND serial > ?")) {
        s.setTimestamp(1, Timestamp.valueOf("2030-01-01 00:00:00"));
        s.setLong(2, Long.MAX_VALUE);
        want(rows(s.executeQuery()).equals(List.of("6")), "times and unsigned numbers as parameters");
        s.setLong(2, -1);
        want(rows(s.executeQuery()).equals(List.of("6")), "a negative one");
      }
      try (ResultSet r = c.getMetaData().getColumns(null, null, "pictures", "serial")) {
        want(r.next() && r.getInt("DATA_TYPE") == Types.BIGINT, r.getInt("DATA_TYPE"));
      }
    });
    check("parameters", "", c -> {
      String sql = "SELECT id FROM pictures WHERE id > ? AND name <> ? AND epoch_ms(taken) < ? ORDER BY id";
      try (PreparedStatement s = c.prepareStatement(sql)) {
        ParameterMetaData p = s.getParameterMetaData();
        want(p.getParameterCount() == 3 && p.getParameterTypeName(1).equals("Int(64, true)"), p.getParameterTypeName(1));
        s.setLong(1, 1);
        s.setString(2, "picture 3");
        s.setLong(3, Timestamp.valueOf("2030-01-01 00:00:00").getTime());
        want(rows(s.executeQuery()).equals(List.of("2", "4", "5")), "first");
        s.setInt(1, 4);
        want(rows(s.executeQuery()).equals(List.of("5")), "again");
        s.setNull(1, Types.BIGINT);
        want(rows(s.executeQuery()).isEmpty(), "null");
        // The driver checks against the described type itself.
        want(refused(() -> { s.setString(1, "3"); return s.executeQuery(); }).contains("STRING"), "text for a number");
      }
      // Types that the statement leaves open are described as the first that fit.
      sql = "SELECT ?, 1 + ?, octet_length(?), id + ?, ?::DATE, ?::TIMESTAMP, ?::TIME, ?::DECIMAL(5, 2), ?::BOOLEAN,"
          + " CAST(? AS INT), taken = ? FROM pictures WHERE id = ?";
      try (PreparedStatement s = c.prepareStatement(sql)) {
        s.setString(1, "text");
        s.setDouble(2, 1.5);
        s.setBytes(3, new byte[] {1, 2, 3});
        s.setLong(4, 1L << 40);
        s.setDate(5, java.sql.Date.valueOf("2026-01-02"));
        s.setTimestamp(6, new Timestamp(1767323045678L));
        s.setTime(7, new Time(3723000L));
        s.setBigDecimal(8, new java.math.BigDecimal("1.25"));
        s.setBoolean(9, true);
        s.setNull(10, Types.INTEGER);
        s.setTimestamp(11, new Timestamp(1767323045000L));
        s.setInt(12, 4);
        ResultSet r = s.executeQuery();
        want(r.next() && r.getString(1).equals("text") && r.getDouble(2) == 2.5 && r.getLong(3) == 3, "text, double, bytes");
        want(r.getLong(4) == (1L << 40) + 4, r.getString(4));
        want(r.getString(5).equals("2026-01-02") && r.getTimestamp(6).getTime() == 1767323045678L, r.getString(6));
        want(r.getString(7).startsWith("01:02:03") && r.getBigDecimal(8).toPlainString().equals("1.25"), r.getString(7));
        want(r.getBoolean(9) && r.getString(10) == null && r.getBoolean(11) && !r.next(), "boolean, null, time with a zone");
      }
      // What only the values decide, the driver learns when they are bound.
      try (PreparedStatement s = c.prepareStatement("SELECT count(*) FROM pictures AT (VERSION => ?) WHERE id < ?")) {
        s.setLong(1, 1);
        s.setLong(2, 3);
        want(rows(s.executeQuery()).equals(List.of("3")), "version");
      }
      try (PreparedStatement s = c.prepareStatement("SELECT id FROM pictures WHERE blob_bytes(img) = ?")) {
        s.setBytes(1, new byte[0]);
        want(rows(s.executeQuery()).equals(List.of("2")), "bytes");
      }
      try (PreparedStatement s = c.prepareStatement("SELECT id FROM pictures WHERE id = ?")) {
        s.setLong(1, 1);
        s.addBatch();
        want(refused(s::executeBatch).contains("run it as a query"), "a batch of queries");
      }
    });
    check("metadata", "", c -> {
      DatabaseMetaData m = c.getMetaData();
      for (java.lang.reflect.Method method : DatabaseMetaData.class.getMethods()) {
        if (method.getParameterCount() > 0) continue;
        Object answer = method.invoke(m); // from SqlInfo
        if (answer instanceof ResultSet) ((ResultSet) answer).close();
      }
      want(m.getDatabaseProductName().equals("flightblob") && !m.isReadOnly(), m.getDatabaseProductName());
      want(m.getIdentifierQuoteString().equals("\"") && m.getSearchStringEscape().equals("\\"), "quotes");
      want(!m.supportsTransactions() && m.getSQLKeywords().length() > 10, "keywords");
      want(column(m.getCatalogs(), "TABLE_CAT").equals(List.of("lance")), "catalogs");
      want(rows(m.getSchemas(null, "m%")).equals(List.of("main|lance")), "schemas");
      want(column(m.getTableTypes(), "TABLE_TYPE").equals(List.of("TABLE")), "table types");
      want(column(m.getTables("lance", "main", "pict_res", new String[] {"TABLE"}), "TABLE_NAME").equals(List.of("pictures")), "tables");
      want(rows(m.getTables(null, null, "%", new String[] {"VIEW"})).isEmpty(), "views");
      want(rows(m.getTables("absent", null, "%", null)).isEmpty(), "another catalog");
      List<String> names = List.of("id", "name", "serial", "taken", "img");
      want(column(m.getColumns(null, null, "pictures", "%"), "COLUMN_NAME").equals(names), "columns");
      want(column(m.getColumns(null, null, "pictures", "_d"), "IS_NULLABLE").equals(List.of("NO")), "nullability");
      want(column(m.getColumns(null, null, "pictures", "i%"), "TYPE_NAME").equals(List.of("BIGINT", "LANCE_BLOB")), "types");
      for (ResultSet r : List.of(m.getPrimaryKeys(null, null, "pictures"), m.getImportedKeys(null, null, "pictures"),
          m.getExportedKeys(null, null, "pictures"), m.getCrossReference(null, null, "pictures", null, null, "pictures"))) {
        want(rows(r).isEmpty(), "keys");
      }
      try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT * FROM pictures LIMIT 1")) {
        ResultSetMetaData d = r.getMetaData();
        want(d.getColumnCount() == 5 && d.getColumnName(5).equals("img") && d.getColumnType(5) == Types.LONGVARBINARY, "result");
        want(d.getColumnType(4) == Types.TIMESTAMP_WITH_TIMEZONE, d.getColumnType(4));
      }
    });
    check("descriptors", "&flightblob-blobs=descriptor", c -> {
      try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT img FROM pictures WHERE id < 4 ORDER BY id")) {
        for (long size : new long[] {10, 3000, 0}) {
          want(r.next() && ((Number) ((Map<?, ?>) r.getObject(1)).get("size")).longValue() == size, r.getString(1));
        }
        want(r.next() && r.getObject(1) == null && r.wasNull(), "null");
      }
    });
    check("logical", "&flightblob-blobs=logical", c -> {
      try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT img FROM pictures WHERE id = 0")) {
        want(r.next() && new String((byte[]) ((Map<?, ?>) r.getObject(1)).get("data")).equals("0000000000"), r.getString(1));
      }
    });
    check("nested blobs", "", c -> {
      try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT [img], {'b': img} FROM pictures WHERE id = 1")) {
        want(r.next() && ((byte[]) ((Object[]) r.getArray(1).getArray())[0]).length == 3000, "list");
        want(((byte[]) ((Map<?, ?>) r.getObject(2)).get("b")).length == 3000, "struct");
      }
    });
    check("large values", "", c -> {
      try (PreparedStatement s = c.prepareStatement("SELECT img FROM pictures WHERE id = ?")) {
        s.setLong(1, 5);
        try (ResultSet r = s.executeQuery()) {
          want(r.next() && r.getBytes(1).length == LARGE, "bytes");
        }
        try (ResultSet r = s.executeQuery()) {
          want(r.next() && r.getBinaryStream(1).readAllBytes().length == LARGE, "stream");
        }
      }
      want(ask(c, "SELECT octet_length(blob_range(img, 16777216, 1048576)) FROM pictures WHERE id = 5").equals(List.of("1048576")), "range");
    });
    check("errors", "", c -> {
      want(refused(() -> ask(c, "SELECT absent FROM pictures")).contains("absent"), "column");
      want(refused(() -> ask(c, "SELECT * FROM absent")).contains("table lance.main.absent does not exist"), "table");
      want(ask(c, "SELECT 1").equals(List.of("1")), "afterwards");
    });
    check("cancel", "", c -> {
      try (Statement s = c.createStatement()) {
        // The driver forgets a cancel that comes before the stream, so it is said again.
        Timer timer = new Timer(true);
        timer.schedule(new TimerTask() {
          @Override
          public void run() {
            try {
              s.cancel();
            } catch (SQLException e) {
              System.out.println("cancel: " + e);
            }
          }
        }, 500, 500);
        long began = System.nanoTime();
        String text = refused(() -> s.executeQuery(endless).next());
        timer.cancel();
        want(text.contains("ancel"), text);
        want(System.nanoTime() - began < 20_000_000_000L, "in time");
      }
      try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT range FROM range(1000000000)")) {
        want(r.next(), "a row");
        s.cancel();
        want(refused(() -> { while (r.next()) {} return null; }).contains("ancel"), "between rows");
      }
      want(ask(c, "SELECT 1").equals(List.of("1")), "afterwards");
    });
    check("early close", "", c -> {
      try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT range FROM range(1000000000)")) {
        want(r.next(), "a row");
      }
    });
    check("endpoints", "", c -> {
      // A plain scan comes in three endpoints, which the driver reads one after the other.
      want(ask(c, "SELECT id FROM pictures").equals(List.of("0", "1", "2", "3", "4", "5")), "statement");
      try (PreparedStatement s = c.prepareStatement("FROM pictures")) {
        want(column(s.executeQuery(), "id").equals(List.of("0", "1", "2", "3", "4", "5")), "prepared");
      }
    });
    check("compression", "&flightblob-compression=lz4", c -> {
      // Sent as it is what does not shrink; the driver undoes nothing.
      want(refused(() -> ask(c, "SELECT repeat('x', 9999) FROM range(9)")).contains("arrow-compression"), "text");
    });
    check("credentials", "&user=someone&password=secret", c -> want(ask(c, "SELECT 1").equals(List.of("1")), "Basic"));
    check("token", "&token=secret", c -> want(ask(c, "SELECT 1").equals(List.of("1")), "Bearer"));
    check("names", "&flightblob-catalog=lance&schema=main", c -> want(ask(c, "SELECT count(*) FROM pictures").equals(List.of("6")), "rows"));
    check("other names", "", c -> {
      want(refused(() -> { try (Connection d = DriverManager.getConnection(url + "&flightblob-catalog=absent")) {
        return ask(d, "SELECT 1"); } }).contains("absent"), "catalog");
      want(refused(() -> { try (Connection d = DriverManager.getConnection(url + "&schema=absent")) {
        return ask(d, "SELECT 1"); } }).contains("absent"), "schema");
      // With catalog= the driver closes its session twice, the second time over a closed channel.
      Connection d = DriverManager.getConnection(url + "&catalog=lance");
      want(ask(d, "SELECT count(*) FROM pictures").equals(List.of("6")), "rows");
      want(refused(() -> { d.close(); return null; }).contains("Channel shutdown invoked"), "close");
    });
    System.out.println("done");
    System.exit(0); // threads of connections that failed go on
  }
}
