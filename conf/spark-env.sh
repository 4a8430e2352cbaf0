# Read by spark-submit where SPARK_CONF_DIR names this folder: the JVM announces a module that Spark
# asks for, and has no option to be silent about it. A Ctrl-C must not end the filter first.
exec 2> >(trap '' INT && exec grep --line-buffered -v '^WARNING: Using incubator modules' >&2)
