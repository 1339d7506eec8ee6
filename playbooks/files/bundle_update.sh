#!/bin/sh
# Reads the package lists of the bundle $1 once, and prints "updated" if it did. $2 is the directory of apt's state.
[ "$(cat "$2/updated" 2> /dev/null)" = "$1" ] && exit 0
mkdir -p "$2/lists/partial" && timeout --kill-after=60 600 apt-get -qq update && echo "$1" > "$2/updated" && echo updated
