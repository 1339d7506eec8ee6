#!/usr/bin/env bash
# Waits until a port is open ($1), for $2 seconds. Exits with 3 as soon as the daemon does not run.
until { exec 3<> "/dev/tcp/127.0.0.1/$1"; } 2> /dev/null; do
  systemctl is-active --quiet slurmdbd || exit 3
  [ "$SECONDS" -lt "$2" ] || exit 1
  sleep 5
done
