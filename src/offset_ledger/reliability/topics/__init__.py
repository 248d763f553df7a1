"""Topics planned from what their data need, and what each setting gives."""
