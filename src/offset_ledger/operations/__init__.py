"""Operations beside the runs: check, init, doctor, status, audit, verify, prune, rename."""
