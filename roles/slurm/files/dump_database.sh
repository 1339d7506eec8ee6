#!/usr/bin/env bash
# Saves the database $1 to the file $2. The standard input says where it is, and the password.
set -o pipefail
umask 077
mariadb-dump --defaults-extra-file=/dev/stdin --single-transaction --no-tablespaces "$1" | gzip > "$2.partial" &&
  mv "$2.partial" "$2" ||
  { rm "$2.partial"; exit 1; }
