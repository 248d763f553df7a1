"""A producer kit: safe settings, idempotent and transactional publishing, files with a journal."""
