"""Topics: planned from what their data need, with what each setting gives."""
