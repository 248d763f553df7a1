"""The verbs of the kit, and the command line of both packages."""
