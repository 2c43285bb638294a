"""Spark ML: rounds of a linear regression, each saved; ends itself after one in the first try where asked to."""

import os
import signal
import sys
from pathlib import Path

from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import LinearRegression, LinearRegressionModel
from pyspark.sql import SparkSession

rounds, lose_at = int(sys.argv[1]), int(sys.argv[2])
saved = Path(os.environ["FALAJ_CHECKPOINTS"])
spark = SparkSession.builder.appName("rounds").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
table = spark.range(60).selectExpr("id % 7 as a", "id % 5 as b", "2.0 * (id % 7) - (id % 5) + 1 as label")
rows = VectorAssembler(inputCols=["a", "b"], outputCol="features").transform(table).coalesce(2).cache()
done = [number for number in range(1, rounds + 1) if (saved / f"round-{number}" / "metadata" / "_SUCCESS").exists()]
print(f"try {os.environ['FALAJ_TRY']} begins after round {max(done, default=0)} on {spark.sparkContext.master}", flush=True)
for number in range(max(done, default=0) + 1, rounds + 1):
    model = LinearRegression(maxIter=number, regParam=0.01 / number).fit(rows)
    model.write().overwrite().save(str(saved / f"round-{number}"))
    print(f"round {number} {model.summary.rootMeanSquaredError:.6f}", flush=True)
    if number == lose_at and os.environ["FALAJ_TRY"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
best = LinearRegressionModel.load(str(saved / f"round-{rounds}"))
print(f"ended {best.coefficients[0]:.2f} {best.coefficients[1]:.2f}", flush=True)
spark.stop()
