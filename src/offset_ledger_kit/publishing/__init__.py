"""Publishing: safe settings, idempotent and transactional producing, files with a journal."""
