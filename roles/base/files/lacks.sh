#!/bin/sh
# Prints what the machine lacks. Arguments: the program that makes tasks root, its kind, and the user of the connection.
[ -d /run/systemd/system ] || echo systemd
[ "$2" != sudo ] || [ "$3" = root ] || command -v "${1%% *}" > /dev/null || echo "$1"
