WITH {view} AS ({rows}) {query}
