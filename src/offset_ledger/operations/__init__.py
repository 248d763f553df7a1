"""What people do with a pipeline besides its schedule: replay, redrive, approve, verify, look at its status."""
