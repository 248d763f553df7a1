"""Report: what people look at after the commit; nothing here affects correctness."""
