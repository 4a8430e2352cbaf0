# spark-submit reads this file if SPARK_CONF_DIR names this folder. The JVM announces a module that
# Spark asks for and has no option to stay silent. Ctrl-C must not end the filter first.
exec 2> >(trap '' INT && exec grep --line-buffered -v '^WARNING: Using incubator modules' >&2)
