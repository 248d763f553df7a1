"""Using Kafka reliably beyond the pipeline: publishing, topics, audits, and labs that measure what breaks."""
