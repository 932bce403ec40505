"""The engine on Spark: the only folder that imports pyspark. Data frames in and out, the kernels in between."""
