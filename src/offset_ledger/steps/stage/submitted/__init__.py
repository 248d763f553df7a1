"""What spark-submit runs. It puts this folder first on the path of imports, so nothing else may stand in it."""
