WITH {writes} SELECT {counts}
