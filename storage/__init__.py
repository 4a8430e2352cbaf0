"""storage: the hands. Bytes in and out, and nothing decided here that `compaction` could decide.

Kafka's bytes   wire · checksums · compression · batch_heads (a segment's batch headers as columns)
                · records (records as columns) · batch_rewrite (survivors back to batches)
                · batch_draft (batches we make) · broker_upload (segments as brokers make them)
                · control_records · legacy_batches
                · segment_reader (the public way to decode a segment)
Side files      offset_index · time_index · index_entries (what these two share) · index_builder
                · transaction_index · producer_snapshot · leader_epoch_checkpoint
The tier        object_store (what a store must do) · local_store · local_tiered_storage (Kafka's
                own folder layout) · kafka_uuid · topic_names · tiers (opens one by URI)
                · local_paths (which paths and URIs are taken)
                · first_sight (what is read once of a new segment)
Worker's work   record_versions (what decides between the records of a key)
                · segment_scan (keys and marks of a segment) · segment_writer (a new segment)
                · group_rewrite (a group of segments into one) · kernel_cache (for numba)
The catalog     catalog · catalog_attempts (claims and commits) · catalog_schema
                · catalog_cells (what a cell may hold) · catalog_rows · runs_table
                · delta_tables · delta_log (checked, synced, cut) · delta_commits · log_boundary
                · file_sync · clock

Readers and writers are twins: bytes to frozen values or numpy columns, and back. Whatever
contradicts the format is a `CorruptLog` with the place; nothing is overwritten or deleted.
"""

from storage.kernel_cache import ensure_kernel_cache

# Before any module is imported that imports numba.
ensure_kernel_cache()
