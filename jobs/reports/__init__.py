"""reports: tables and pictures for people. Nothing here decides or computes.

    tables           the parts that all tables share
    verb_tables      the tables of `plan`, `compact`, `status` and `config`
    verify_tables    the table of `verify`
    explained_plan   `plan --explain` as a picture
    vacuum_tables    the tables of `vacuum`
    history_tables   the tables of `history`, `restore` and `forget`
"""
