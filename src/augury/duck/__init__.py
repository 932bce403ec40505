"""SELECT classes on DuckDB: Spark SQL in, rows out, as Spark would give them."""
