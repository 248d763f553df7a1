"""The vocabulary: offset ranges, snapshots, batches, states, balance sheets, questions; values without servers."""
