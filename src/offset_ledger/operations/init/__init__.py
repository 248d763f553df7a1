"""Init: a pipeline file and a suite proposed from the records of a topic, for people to read and correct."""
