#!/bin/sh
# Runs the check $1 again while it exits with 3, five times at most: a suspect node needs more samples.
for _ in 1 2 3 4 5; do
  sh -c "$1"
  status=$?
  [ "$status" -eq 3 ] || break
  sleep 6
done
exit "$status"
