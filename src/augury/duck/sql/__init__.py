"""Spark SQL of SELECT classes as SQL that means the same to DuckDB: kinds → values → expressions → queries."""
