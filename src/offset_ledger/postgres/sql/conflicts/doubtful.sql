SELECT {key} FROM valued AS v WHERE {doubtful}
