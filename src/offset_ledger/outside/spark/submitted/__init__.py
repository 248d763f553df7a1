"""What spark-submit runs as a server. This folder is first on its path of imports: nothing else may stand in it."""
