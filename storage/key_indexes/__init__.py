"""key_indexes: what a later round needs to leave clean segments unread, stored beside the catalog.

    index_files     the two files of a segment as bytes: facts and Bloom filter, key index
    index_folder    where they are stored; reads, writes, lists and deletes them

Losing them costs time only: they are made again when their segment is read.
"""
