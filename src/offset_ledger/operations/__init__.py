"""What people do beside the runs: check, init, doctor, status, audit, verify, prune, rename."""
